package preemption

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/component-base/metrics/testutil"
)

// TestTableOfSettings compares with the services, which are tested against the same table (scavenger_api.shared_settings).
func TestTableOfSettings(t *testing.T) {
	var cases []struct {
		Name         string
		Before, Data map[string]string
		Want         struct {
			StartupCostSeconds *float64
			ResourceWeights    map[v1.ResourceName]float64
		}
		Invalid []string
	}
	readTable(t, "settings_cases.json", &cases)
	for _, tt := range cases {
		t.Run(tt.Name, func(t *testing.T) {
			want := settings{weights: maps.Clone(defaultWeights), startupCost: defaultSettings.startupCost}
			maps.Copy(want.weights, tt.Want.ResourceWeights)
			if tt.Want.StartupCostSeconds != nil {
				want.startupCost = *tt.Want.StartupCostSeconds
			}
			before, _ := defaultSettings.read(tt.Before)
			found, problems := before.read(tt.Data)
			if found.startupCost != want.startupCost || !maps.Equal(found.weights, want.weights) {
				t.Errorf("got %v, want %v", found, want)
			}
			for _, key := range []string{keyWeights, keyStartupCost} {
				if bad := slices.Contains(tt.Invalid, key); bad != (problems[key] != nil) {
					t.Errorf("%s: %v, want a problem: %t", key, problems[key], bad)
				}
			}
		})
	}
}

func TestTooManyWeights(t *testing.T) {
	var parts []string
	for i := range maxWeights {
		parts = append(parts, fmt.Sprintf("example.com/r%d=1", i))
	}
	for _, text := range []string{strings.Join(parts, ","), strings.Repeat(" ", maxWeightsText+1)} {
		if found, err := weightsOf(text); err == nil {
			t.Errorf("%d characters were taken for %v", len(text), found)
		}
	}
}

// A change of the ConfigMap acts in a running scheduler, and an attempt goes by the settings of its beginning.
func TestSettingsAreFollowed(t *testing.T) {
	job := scavenger("job", "node-000", "1", "").unannotate(annotationRisk).running(time.Minute)
	s := world{nodes: nodes(1, "1"), pods: []pod{job}}.start(t)
	configMaps := s.client.CoreV1().ConfigMaps(defaultNamespace)
	seconds := func() float64 {
		return s.plugin.newAttempt(pending("web", "1").Pod, noon).job(keyOf(job.Pod), job.Pod).seconds
	}
	eventually := func(what string, want float64) {
		t.Helper()
		for range 500 {
			if seconds() == want {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("%s: %v CPU-seconds, want %v", what, seconds(), want)
	}
	eventually("by default", 120)
	waitForWatch(t, s.client) // a fake client shows nothing of what happens between a list and its watch
	of := func(data map[string]string) *v1.ConfigMap {
		return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: settingsConfigMap}, Data: data}
	}
	write := func(_ *v1.ConfigMap, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := context.Background()
	write(configMaps.Create(ctx, of(map[string]string{keyStartupCost: "30"}), metav1.CreateOptions{}))
	eventually("when it is created", 90)

	began := s.plugin.newAttempt(pending("web", "1").Pod, noon)
	write(configMaps.Update(ctx, of(map[string]string{keyStartupCost: "30", keyWeights: "cpu=2"}), metav1.UpdateOptions{}))
	eventually("when it changes", 180)
	if j := began.job(keyOf(job.Pod), job.Pod); j.seconds != 90 {
		t.Errorf("an attempt under way: %v CPU-seconds, want 90", j.seconds)
	}

	write(configMaps.Update(ctx, of(map[string]string{keyStartupCost: "soon", keyWeights: "cpu=3"}), metav1.UpdateOptions{}))
	eventually("with a bad value, the last good one stays", 270)
	if bad := invalid(t, keyStartupCost); bad != 1 {
		t.Errorf("the metric of the bad key is %v", bad)
	}
	if bad := invalid(t, keyWeights); bad != 0 {
		t.Errorf("the metric of the good key is %v", bad)
	}

	other := of(map[string]string{keyStartupCost: "7"})
	other.Name = "scavenger-levels"
	write(configMaps.Create(ctx, other, metav1.CreateOptions{}))
	if err := configMaps.Delete(ctx, settingsConfigMap, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually("when it is gone", 120)
	if bad := invalid(t, keyStartupCost); bad != 0 {
		t.Errorf("the metric of a key that is gone is %v", bad)
	}
}

func waitForWatch(t *testing.T, client *fake.Clientset) {
	t.Helper()
	for range 500 {
		for _, action := range client.Actions() {
			if action.Matches("watch", "configmaps") {
				return
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("nobody watches the ConfigMap")
}

func invalid(t *testing.T, key string) float64 {
	t.Helper()
	found, err := testutil.GetGaugeMetricValue(invalidSettings.WithLabelValues(key))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// The plugin asks for the one ConfigMap that its role lets it read, in the namespace of the system.
func TestSettingsAreAskedForByName(t *testing.T) {
	t.Setenv(namespaceVariable, "elsewhere")
	client := fake.NewClientset()
	if _, err := followSettings(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	for range 500 {
		for _, action := range client.Actions() {
			list, ok := action.(interface{ GetListOptions() metav1.ListOptions })
			if !ok {
				continue
			}
			if found := list.GetListOptions().FieldSelector; found != "metadata.name="+settingsConfigMap || action.GetNamespace() != "elsewhere" {
				t.Errorf("listed %q in %q", found, action.GetNamespace())
			}
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("nothing was listed")
}
