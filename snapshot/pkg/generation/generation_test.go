package generation_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"scavenger.dev/snapshot/pkg/generation"
)

var host = generation.Host{
	Owner: "job-1", Image: "sha256:1", Command: []string{"count"}, Engine: "gvisor 1", Features: []string{"avx", "sse"},
	Volumes: []string{"/data", "/other"},
}

func manifest() *generation.Manifest {
	return &generation.Manifest{
		Moment: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Owner: host.Owner, Image: host.Image, Command: host.Command,
		Engine: host.Engine, Features: []string{"sse"}, Volumes: []string{"/data"},
	}
}

func never() error { return nil }

func open(t *testing.T) *generation.Store {
	t.Helper()
	return openAs(t, t.TempDir(), nil, host.Owner)
}

// openAs opens a folder as the job with this key and owner does.
func openAs(t *testing.T, path string, key generation.Key, owner string) *generation.Store {
	t.Helper()
	folder, err := generation.OpenFolder("", path)
	if err != nil {
		t.Fatal(err)
	}
	store, err := generation.Open(folder, key, owner)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func commit(t *testing.T, store *generation.Store, content string) {
	t.Helper()
	draft, err := store.Begin()
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(draft.Folder, "state"), content)
	write(t, filepath.Join(draft.Folder, "pages"), strings.Repeat(content, 1000))
	if err := draft.Commit(manifest(), never); err != nil {
		t.Fatal(err)
	}
}

func TestTheTwoNewestStay(t *testing.T) {
	store := open(t)
	for _, content := range []string{"a", "b", "c"} {
		commit(t, store, content)
	}
	numbers, err := store.Numbers()
	if err != nil || !slices.Equal(numbers, []int{3, 2}) {
		t.Fatalf("generations %v, %v", numbers, err)
	}
	for _, number := range numbers {
		if _, err := store.Load(number); err != nil {
			t.Errorf("generation %d: %v", number, err)
		}
	}
}

func TestATornFileIsNeverUsed(t *testing.T) {
	store := open(t)
	commit(t, store, "state of the program")
	for _, name := range []string{"state", "pages", "manifest.json"} {
		path := filepath.Join(store.Folder(1), name)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for cut := range 20 {
			write(t, path, string(whole[:len(whole)*cut/20]))
			if _, err := store.Load(1); err == nil {
				t.Errorf("%s with %d of %d bytes counts", name, len(whole)*cut/20, len(whole))
			}
		}
		write(t, path, string(whole[:len(whole)-1]))
		if _, err := store.Load(1); err == nil {
			t.Errorf("%s without its last byte counts", name)
		}
		write(t, path, string(whole))
	}
	if _, err := store.Load(1); err != nil {
		t.Errorf("the whole one does not count: %v", err)
	}
}

func TestWhatWasNotCommittedIsRemoved(t *testing.T) {
	folder := t.TempDir()
	store := openAs(t, folder, nil, host.Owner)
	draft, err := store.Begin()
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(draft.Folder, "state"), "half")
	again := openAs(t, folder, nil, host.Owner)
	entries, _ := os.ReadDir(folder)
	if numbers, _ := again.Numbers(); len(numbers) > 0 || len(entries) > 0 {
		t.Errorf("generations %v, entries %v", numbers, entries)
	}
}

func TestAnotherHostIsRefusedWithTheReason(t *testing.T) {
	for _, c := range []struct {
		change func(*generation.Host)
		want   string
	}{
		{func(*generation.Host) {}, ""},
		{func(h *generation.Host) { h.Features = []string{"avx"} }, "the CPU of this node lacks sse"},
		{func(h *generation.Host) { h.Image = "sha256:2" }, "it was made with image sha256:1, and this is sha256:2"},
		{func(h *generation.Host) { h.Image = "" }, ""},
		{func(h *generation.Host) { h.Owner = "job-2" }, "it belongs to job-1, and this is job-2"},
		{func(h *generation.Host) { h.Volumes = nil }, "it was made with a volume in /data, and there is none"},
		{func(h *generation.Host) { h.Engine = "gvisor 2" }, "it was made by gvisor 1, and this is gvisor 2"},
		{func(h *generation.Host) { h.Command = []string{"other"} }, `it is of the command ["count"]`},
	} {
		other := host
		c.change(&other)
		found := ""
		if err := manifest().Unfit(other); err != nil {
			found = err.Error()
		}
		if found != c.want {
			t.Errorf("found %q, want %q", found, c.want)
		}
	}
}

func TestFilesAreCutBackOrRefused(t *testing.T) {
	volumes := []string{t.TempDir()}
	path := filepath.Join(volumes[0], "log")
	write(t, path, "one\ntwo\n")
	marks, err := generation.MarkFiles([]string{path, path + "-gone"}, nil)
	if err != nil || len(marks) != 1 {
		t.Fatalf("marks %v, %v", marks, err)
	}
	for _, c := range []struct{ content, refused string }{
		{"one\ntwo\n", ""},
		{"one\ntwo\nthree\n", ""},
		{"one\n", "has 4 bytes, and had 8"},
		{"ONE\ntwo\nthree\n", "changed in place"},
	} {
		write(t, path, c.content)
		err := marks[0].Unchanged(volumes)
		if c.refused != "" {
			if err == nil || !strings.Contains(err.Error(), c.refused) || !strings.Contains(err.Error(), path) {
				t.Errorf("%q: %v", c.content, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", c.content, err)
		}
		if err := marks[0].CutBack(volumes); err != nil {
			t.Error(err)
		}
		if found, _ := os.ReadFile(path); string(found) != "one\ntwo\n" {
			t.Errorf("cut back to %q", found)
		}
	}
}

func TestAnEndIsThatOfTheSameProgram(t *testing.T) {
	store := open(t)
	commit(t, store, "a")
	if err := store.Finish(generation.Ended{Owner: host.Owner, Command: host.Command}); err != nil {
		t.Fatal(err)
	}
	if numbers, _ := store.Numbers(); len(numbers) > 0 {
		t.Errorf("generations %v are left", numbers)
	}
	other := host
	other.Owner = "job-2"
	for _, c := range []struct {
		host generation.Host
		want bool
	}{{host, true}, {other, false}} {
		if ended, err := store.End(c.host); err != nil || (ended != nil) != c.want {
			t.Errorf("%s: %v, %v", c.host.Owner, ended, err)
		}
	}
}
