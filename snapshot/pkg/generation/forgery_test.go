package generation_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"scavenger.dev/snapshot/pkg/generation"
)

var (
	mine   = generation.Key(bytes.Repeat([]byte{1}, 32))
	theirs = generation.Key(bytes.Repeat([]byte{2}, 32))
)

// stranger is a user that is not the one of the tests.
const stranger = 65533

// refused expects an error with these words.
func refused(t *testing.T, err error, words string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("%v, want %q", err, words)
	}
}

// onlyRoot skips what needs the right to give folders away.
func onlyRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("it needs root to give a folder to another user")
	}
}

func numbersOf(t *testing.T, store *generation.Store) []int {
	t.Helper()
	numbers, err := store.Numbers()
	if err != nil {
		t.Fatal(err)
	}
	return numbers
}

func TestAnotherJobInTheSameFolderLosesNothingAndGetsNothing(t *testing.T) {
	folder := t.TempDir()
	first := openAs(t, folder, mine, "job-1")
	commit(t, first, "a")
	commit(t, first, "b")
	if err := first.Finish(generation.Ended{Owner: "job-1", Command: host.Command}); err != nil {
		t.Fatal(err)
	}
	commit(t, first, "c")
	commit(t, first, "d")
	second := openAs(t, folder, theirs, "job-2")
	if second.Usable() {
		t.Error("the snapshots of another job count")
	}
	for _, number := range numbersOf(t, second) {
		_, err := second.Load(number)
		refused(t, err, "it was not signed with the key of this job")
	}
	if ended, err := second.End(generation.Host{Owner: "job-2", Command: host.Command}); ended != nil || err == nil {
		t.Errorf("another job has ended: %v, %v", ended, err)
	}
	for _, content := range []string{"e", "f", "g"} {
		commit(t, second, content)
	}
	if found := numbersOf(t, second); !slices.Equal(found, []int{5, 4, 2, 1}) {
		t.Errorf("generations %v are there: of each job the two newest stay", found)
	}
	if err := second.Finish(generation.Ended{Owner: "job-2"}); err != nil {
		t.Fatal(err)
	}
	if found := numbersOf(t, second); !slices.Equal(found, []int{2, 1}) {
		t.Errorf("generations %v are left of the other job", found)
	}
	if _, err := first.Load(2); err != nil {
		t.Error(err)
	}
}

func TestAManifestWithoutOwnerOrImageFitsNoJobThatHasThem(t *testing.T) {
	for _, c := range []struct {
		change func(*generation.Manifest)
		words  string
	}{
		{func(m *generation.Manifest) { m.Owner = "" }, "it belongs to nobody, and this is job-1"},
		{func(m *generation.Manifest) { m.Image = "" }, "it was made with image nobody, and this is sha256:1"},
		{func(m *generation.Manifest) { m.Command = nil }, "it is of the command []"},
	} {
		changed := manifest()
		c.change(changed)
		refused(t, changed.Unfit(host), c.words)
	}
	store := openAs(t, t.TempDir(), mine, host.Owner)
	commit(t, store, "a")
	rewrite(t, store, 1, func(m *generation.Manifest) { m.Owner = "" })
	_, err := store.Load(1)
	refused(t, err, "it was not signed with the key of this job")
}

// rewrite changes the manifest of a generation as somebody does who has no key.
func rewrite(t *testing.T, store *generation.Store, number int, change func(*generation.Manifest)) {
	t.Helper()
	path := filepath.Join(store.Folder(number), "manifest.json")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, signature, signed := bytes.Cut(content, []byte("\n"))
	var found generation.Manifest
	if err := json.Unmarshal(text, &found); err != nil {
		t.Fatal(err)
	}
	change(&found)
	if text, err = json.Marshal(found); err != nil {
		t.Fatal(err)
	}
	if signed {
		text = append(append(text, '\n'), signature...)
	}
	write(t, path, string(text))
}

func TestAForgedMarkEmptiesNoFile(t *testing.T) {
	volume, other := t.TempDir(), t.TempDir()
	victim := filepath.Join(other, "results")
	write(t, victim, "years of work")
	store := openAs(t, filepath.Join(volume, "folder"), mine, host.Owner)
	commit(t, store, "a")
	empty := generation.Mark{
		Path: victim, Modified: time.Now(),
		End: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", // of nothing
	}
	rewrite(t, store, 1, func(m *generation.Manifest) { m.Written = []generation.Mark{empty} })
	_, err := store.Load(1)
	refused(t, err, "it was not signed with the key of this job")
	// Even a signed one: a mark is of a file in a volume of the program.
	volumes := []string{volume}
	refused(t, empty.Unchanged(volumes), "is in no volume of this program")
	refused(t, empty.CutBack(volumes), "is in no volume of this program")
	empty.Path = filepath.Join(volume, "..", filepath.Base(other), "results")
	refused(t, empty.CutBack(volumes), "is in no volume of this program")
	empty.Path = volume + "/../" + filepath.Base(other) + "/results"
	refused(t, empty.CutBack(volumes), "is in no volume of this program")
	if found, _ := os.ReadFile(victim); string(found) != "years of work" {
		t.Errorf("the file has %q", found)
	}
}

func TestAFolderOfAnotherUserIsRefused(t *testing.T) {
	onlyRoot(t)
	base := t.TempDir()
	shared := filepath.Join(base, ".snapshot")
	own := filepath.Join(shared, "lab_1")
	for _, path := range []string{shared, own} {
		if err := os.Mkdir(path, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(own, stranger, stranger); err != nil {
		t.Fatal(err)
	}
	_, err := generation.OpenFolder(base, own)
	refused(t, err, own+" belongs to user 65533, and this is user 0")
	if about, _ := os.Stat(shared); about.Mode()&(os.ModeSticky|os.ModePerm) != os.ModeSticky|0o777 {
		t.Errorf("the folder of all jobs has the mode %v", about.Mode())
	}
	// The folder of all jobs may be another user's, unless each user can remove the folders of others there.
	if err := os.Chown(own, 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(shared, stranger, stranger); err != nil {
		t.Fatal(err)
	}
	if _, err := generation.OpenFolder(base, own); err != nil {
		t.Error(err)
	}
	if about, _ := os.Stat(own); about.Mode().Perm() != 0o700 {
		t.Errorf("others can use the folder: %v", about.Mode())
	}
	if err := os.Chmod(shared, 0o777); err != nil {
		t.Fatal(err)
	}
	_, err = generation.OpenFolder(base, own)
	refused(t, err, "each user can remove the snapshots of others (mode 0777): set its mode to 1777")
}

func TestJobsOfSeveralUsersShareAVolume(t *testing.T) {
	onlyRoot(t)
	base := t.TempDir()
	for _, user := range []string{"1", "2"} {
		if _, err := generation.OpenFolder(base, filepath.Join(base, ".snapshot", "lab_"+user)); err != nil {
			t.Fatal(err)
		}
	}
	about, err := os.Stat(filepath.Join(base, ".snapshot"))
	if err != nil || about.Mode()&(os.ModeSticky|os.ModePerm) != os.ModeSticky|0o777 {
		t.Fatalf("the folder of all jobs: %v, %v", about.Mode(), err)
	}
	// What kubelets do where a pod has an fsGroup.
	own := filepath.Join(base, ".snapshot", "lab_1")
	if err := os.Chmod(own, 0o2770); err != nil {
		t.Fatal(err)
	}
	if _, err := generation.OpenFolder(base, own); err != nil {
		t.Error(err)
	}
}

func TestAForgedEndEndsNoJob(t *testing.T) {
	folder := t.TempDir()
	store := openAs(t, folder, mine, "uid/3")
	task := generation.Host{Owner: "uid/3", Command: host.Command}
	forged, err := json.Marshal(generation.Ended{Owner: "uid/3", Command: host.Command, Moment: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "ended.json")
	write(t, path, string(forged))
	ended, err := store.End(task)
	refused(t, err, "it was not signed with the key of this job")
	if ended != nil {
		t.Error("a job that never ran has ended")
	}
	// That of another task of its array, signed with the same key, and that of a snapshot.
	other := openAs(t, t.TempDir(), mine, "uid/4")
	if err := other.Finish(generation.Ended{Owner: "uid/4", Command: host.Command}); err != nil {
		t.Fatal(err)
	}
	signed, err := os.ReadFile(filepath.Join(filepath.Dir(other.Folder(1)), "ended.json"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, string(signed))
	if ended, err := store.End(task); ended != nil || err != nil {
		t.Errorf("the end of another task counts: %v, %v", ended, err)
	}
	commit(t, store, "a")
	of, err := os.ReadFile(filepath.Join(store.Folder(1), "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, string(of))
	if ended, err := store.End(task); ended != nil || err == nil {
		t.Errorf("a snapshot counts as an end: %v, %v", ended, err)
	}
	if err := store.Finish(generation.Ended{Owner: "uid/3", Command: host.Command}); err != nil {
		t.Fatal(err)
	}
	if ended, err := store.End(task); ended == nil || err != nil {
		t.Errorf("its own end does not count: %v", err)
	}
}

func TestNoSymbolicLinkIsFollowed(t *testing.T) {
	volume, other := t.TempDir(), t.TempDir()
	victim := filepath.Join(other, "results")
	write(t, victim, "years of work")
	for link, target := range map[string]string{"folder": other, "file": victim, ".snapshot": other} {
		if err := os.Symlink(target, filepath.Join(volume, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"folder/results", "file"} {
		mark := generation.Mark{Path: filepath.Join(volume, path), Size: 5}
		refused(t, mark.Unchanged([]string{volume}), "is a symbolic link")
		refused(t, mark.CutBack([]string{volume}), "is a symbolic link")
	}
	_, err := generation.OpenFolder(volume, filepath.Join(volume, ".snapshot", "lab_1"))
	refused(t, err, ".snapshot is a symbolic link")
	_, err = generation.OpenFolder("", filepath.Join(volume, "folder"))
	refused(t, err, "folder is a symbolic link")
	if found, _ := os.ReadFile(victim); string(found) != "years of work" {
		t.Errorf("the file has %q", found)
	}
	// A generation, and a file of one.
	folder := filepath.Join(volume, "own")
	store := openAs(t, folder, mine, host.Owner)
	elsewhere := openAs(t, t.TempDir(), mine, host.Owner)
	commit(t, elsewhere, "a")
	if err := os.Symlink(elsewhere.Folder(1), store.Folder(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Load(1); err == nil {
		t.Error("a generation elsewhere counts")
	}
	if err := os.Remove(store.Folder(1)); err != nil {
		t.Fatal(err)
	}
	commit(t, store, "a")
	state := filepath.Join(store.Folder(1), "state")
	if err := os.Rename(state, filepath.Join(other, "state")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(other, "state"), state); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Load(1); err == nil {
		t.Error("a file elsewhere counts")
	}
	if err := os.Remove(state); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(state, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = store.Load(1)
	refused(t, err, "state is no regular file")
}

func TestASnapshotUnderAnotherNumberIsRefused(t *testing.T) {
	store := openAs(t, t.TempDir(), mine, host.Owner)
	commit(t, store, "a")
	if err := os.Rename(store.Folder(1), store.Folder(7)); err != nil {
		t.Fatal(err)
	}
	_, err := store.Load(7)
	refused(t, err, "it was snapshot 1")
}

func TestForgedSnapshotsTakeNoPlaceOfTrueOnes(t *testing.T) {
	store := openAs(t, t.TempDir(), mine, host.Owner)
	commit(t, store, "a")
	for _, number := range []int{888888888888, 999999999999} {
		if err := os.Mkdir(store.Folder(number), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(store.Folder(888888888888), "manifest.json"), `{"owner": "job-1"}`)
	commit(t, store, "b")
	if found := numbersOf(t, store); !slices.Equal(found, []int{2, 1}) {
		t.Errorf("generations %v", found)
	}
}

func TestTheFolderOfAnEarlierVersionIsTakenOnce(t *testing.T) {
	base := t.TempDir()
	shared := filepath.Join(base, ".snapshot")
	earlier := filepath.Join(shared, "train")
	old := openAs(t, earlier, nil, host.Owner)
	commit(t, old, "a")
	commit(t, old, "b")
	rewrite(t, old, 1, func(m *generation.Manifest) { m.Owner = "job-0" })
	openAs(t, filepath.Join(shared, "other"), nil, "job-9")
	folder, err := generation.OpenFolder(base, filepath.Join(shared, "lab_job-1"))
	if err != nil {
		t.Fatal(err)
	}
	store, err := generation.Open(folder, mine, host.Owner)
	if err != nil {
		t.Fatal(err)
	}
	told, err := store.Adopt(base, earlier, host, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"left " + old.Folder(1) + ": it belongs to job-0, and this is job-1",
		"took over " + old.Folder(2),
		"\"" + filepath.Join(shared, "other") + "\"",
	}
	for _, words := range want {
		if !strings.Contains(strings.Join(told, "\n"), words) {
			t.Errorf("told %q, and not %q", told, words)
		}
	}
	if loaded, err := store.Load(2); err != nil || loaded.Owner != host.Owner {
		t.Errorf("it does not count: %v", err)
	}
	if found := numbersOf(t, old); !slices.Equal(found, []int{1}) {
		t.Errorf("generations %v are left in the earlier folder", found)
	}
	// Once: what somebody puts there later has no signature either.
	commit(t, old, "forged")
	if err := os.RemoveAll(store.Folder(2)); err != nil {
		t.Fatal(err)
	}
	if told, err = store.Adopt(base, earlier, host, time.Second); err != nil || len(told) > 0 {
		t.Errorf("told %q, %v", told, err)
	}
	if store.Usable() {
		t.Error("it was taken again")
	}
}

func TestTheSecretOfAnotherJobIsRefused(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "train-snapshot-key")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	key := strings.Repeat("k", 32)
	for _, c := range []struct{ key, owner, words string }{
		{key, "", "the Secret train-snapshot-key does not belong to this job: delete it"},
		{key, "uid-0", "does not belong to this job"},
		{"short", "uid", "does not belong to this job"},
	} {
		write(t, filepath.Join(folder, "key"), c.key)
		write(t, filepath.Join(folder, "owner"), c.owner)
		_, err := generation.ReadSecret(folder, "uid/3")
		refused(t, err, c.words)
	}
	write(t, filepath.Join(folder, "key"), key)
	write(t, filepath.Join(folder, "owner"), "uid")
	for _, owner := range []string{"uid", "uid/3"} {
		if secret, err := generation.ReadSecret(folder, owner); err != nil || string(secret.Key) != key || secret.Adopt {
			t.Errorf("%v, %v", secret, err)
		}
	}
	_, err := generation.ReadSecret(folder, "")
	refused(t, err, "does not belong to this job")
}
