package preemption

import (
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// The ConfigMap that all components read alike (scavenger_api.shared_settings), and its keys that a scheduler needs.
const (
	settingsConfigMap = "scavenger-settings"
	keyStartupCost    = "startupCostSeconds"
	keyWeights        = "resourceWeights"

	// namespaceVariable names the variable of the environment with the namespace of the system; defaultNamespace is the
	// usual one.
	namespaceVariable = "SCAVENGER_NAMESPACE"
	defaultNamespace  = "scavenger-system"

	// maxSeconds is the longest interruptionAfter: nothing means anything beyond.
	maxSeconds = 7 * 24 * 3600
	maxDigits  = 40
	// blanks may stand around a value; no other character counts as blank in Python and in Go.
	blanks = " \t\r\n"
)

// settings are what the plugin judges by. Nobody changes one that is in use: an attempt takes them once.
type settings struct {
	weights weights
	// startupCost is what a restart costs each core of a job that has written no checkpoint since its start, in seconds:
	// one that has just come back must not be the next victim for ever.
	startupCost float64
}

// defaultSettings are those of scavenger_api.names.
var defaultSettings = settings{weights: defaultWeights, startupCost: 60}

// read returns what a ConfigMap says. Keys that it lacks have their defaults. One with a bad value is as in s, the last
// that was good, and has an error. Both parsers are tested against testdata/settings_cases.json.
func (s settings) read(data map[string]string) (found settings, problems map[string]error) {
	found, problems = defaultSettings, map[string]error{}
	if text, ok := data[keyWeights]; ok {
		if parsed, err := weightsOf(text); err != nil {
			found.weights, problems[keyWeights] = s.weights, err
		} else {
			found.weights = parsed
		}
	}
	if text, ok := data[keyStartupCost]; ok {
		if seconds, ok := numberOf(text); !ok || seconds > maxSeconds {
			err := fmt.Errorf("%.80q is no number of seconds from 0 to %d", text, maxSeconds)
			found.startupCost, problems[keyStartupCost] = s.startupCost, err
		} else {
			found.startupCost = seconds
		}
	}
	return found, problems
}

var number = regexp.MustCompile(`^\+?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$`)

// numberOf reads a number of 0 or more, in decimal digits.
func numberOf(text string) (float64, bool) {
	text = strings.Trim(text, blanks)
	if len(text) > maxDigits || !number.MatchString(text) {
		return 0, false
	}
	found, err := strconv.ParseFloat(text, 64)
	return found, err == nil
}

// followedSettings are the settings at each moment.
type followedSettings struct {
	current atomic.Pointer[settings]
}

// now returns the settings of this moment.
func (f *followedSettings) now() settings {
	return *f.current.Load()
}

// followSettings follows the ConfigMap with an informer of its own: the scheduler waits for those of its shared factory
// before it starts, and the role of a scheduler that somebody else deploys may not let it read this one. Until it is
// read, and without it, the defaults hold.
func followSettings(ctx context.Context, client kubernetes.Interface) (*followedSettings, error) {
	f := &followedSettings{}
	f.current.Store(&defaultSettings)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithNamespace(systemNamespace()),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, settingsConfigMap).String()
		}))
	_, err := factory.Core().V1().ConfigMaps().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { f.saw(ctx, object) },
		UpdateFunc: func(_, object any) { f.saw(ctx, object) },
		DeleteFunc: func(any) { f.take(ctx, nil) },
	})
	factory.Start(ctx.Done())
	return f, err
}

func systemNamespace() string {
	if found := os.Getenv(namespaceVariable); found != "" {
		return found
	}
	return defaultNamespace
}

func (f *followedSettings) saw(ctx context.Context, object any) {
	if found, ok := object.(*v1.ConfigMap); ok && found.Name == settingsConfigMap {
		f.take(ctx, found.Data)
	}
}

// take goes by what a ConfigMap says from now on. The informer calls it for one change after the other.
func (f *followedSettings) take(ctx context.Context, data map[string]string) {
	before := f.now()
	found, problems := before.read(data)
	for _, key := range []string{keyWeights, keyStartupCost} {
		invalid := 0.0
		if err := problems[key]; err != nil {
			invalid = 1
			klog.FromContext(ctx).Error(err, "Ignored a setting", "configMap", settingsConfigMap, "key", key)
		}
		invalidSettings.WithLabelValues(key).Set(invalid)
	}
	f.current.Store(&found)
	if found.startupCost != before.startupCost || !maps.Equal(found.weights, before.weights) {
		klog.FromContext(ctx).Info("Settings of all components changed",
			keyStartupCost, found.startupCost, keyWeights, found.weights.String())
	}
}

// String is the list that weightsOf reads.
func (w weights) String() string {
	parts := make([]string, 0, len(w))
	for name, weight := range w {
		parts = append(parts, fmt.Sprintf("%s=%g", name, weight))
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}
