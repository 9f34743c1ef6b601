package generation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// adoptedName says that a run with a key has had the folder: nothing of an earlier version is taken over any more.
const adoptedName = "adopted.json"

type adopted struct {
	Owner  string    `json:"owner"`
	Moment time.Time `json:"moment"`
}

// Adopt takes over what an earlier version has kept of this program in another folder, once: at the first start with a
// key. The manifests there have no signature, so the caller says whether the program had run before there were any.
//
// base, path: the earlier folder, as for OpenFolder; an empty path takes nothing over. host: what the generations have to
// fit. limit: how long a run of the earlier version may take to end.
//
// Returns what to tell of it: what was taken over, and what is left.
func (s *Store) Adopt(base, path string, host Host, limit time.Duration) ([]string, error) {
	if s.there(adoptedName) {
		return nil, nil
	}
	var told []string
	if path != "" {
		var err error
		if told, err = s.adopt(base, path, host, limit); err != nil {
			return told, err
		}
		for _, name := range earlierFolders(base, path) {
			told = append(told, fmt.Sprintf("left %q, which an earlier version has made for a job of that name: remove it when"+
				" no job needs it", filepath.Join(filepath.Dir(path), name)))
		}
	}
	return told, s.write(s.folder.root, adoptedName, adoptedKind, adopted{s.owner, time.Now().UTC()})
}

func (s *Store) adopt(base, path string, host Host, limit time.Duration) ([]string, error) {
	earlier, err := openFolder(base, path, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return []string{fmt.Sprintf("left %s: %v", path, err)}, nil
	}
	defer earlier.root.Close()
	lock, err := earlier.Lock(limit)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	// Before there were keys, the owner was the job; now it may name a task as well.
	host.Owner, _, _ = strings.Cut(s.owner, "/")
	unsigned := &Store{earlier, nil, host.Owner}
	numbers, err := unsigned.Numbers()
	if err != nil {
		return nil, err
	}
	var told []string
	left := 0
	for _, number := range slices.Backward(numbers) {
		if err := s.takeOver(unsigned, number, host); err != nil {
			told = append(told, fmt.Sprintf("left %s: %v", unsigned.Folder(number), err))
			left++
		} else {
			told = append(told, fmt.Sprintf("took over %s", unsigned.Folder(number)))
		}
	}
	if len(numbers) > 0 && left == 0 {
		_ = earlier.root.Remove(lockName)
		_ = os.Remove(path)
	}
	return told, nil
}

// takeOver signs a generation and moves it here. In this order: after a crash in between it is signed, and moved then.
func (s *Store) takeOver(from *Store, number int, host Host) error {
	root, err := from.folder.root.OpenRoot(nameOf(number))
	if err != nil {
		return err
	}
	defer root.Close()
	if signed, err := s.manifest(root, number); err != nil || signed.Owner != s.owner {
		loaded, err := from.Load(number)
		if err != nil {
			return err
		}
		loaded.Close()
		if err := loaded.Unfit(host); err != nil && !errors.Is(err, ErrFeatures) {
			return err
		}
		loaded.Number, loaded.Owner = number, s.owner
		if err := s.write(root, manifestName, manifestKind, loaded.Manifest); err != nil {
			return err
		}
	}
	there, err := from.folder.root.Open(".")
	if err != nil {
		return err
	}
	defer there.Close()
	here, err := s.folder.root.Open(".")
	if err != nil {
		return err
	}
	defer here.Close()
	if err := unix.Renameat(int(there.Fd()), nameOf(number), int(here.Fd()), nameOf(number)); err != nil {
		return err
	}
	return here.Sync()
}
