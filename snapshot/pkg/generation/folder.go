package generation

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// sharedMode is that of the folder of a volume in which each job has its own: every user may make one there, and
	// none can remove another's, but for the owner of that folder.
	sharedMode = 0o1777
	ownMode    = 0o700
	othersMay  = 0o022
	lockName   = "lock"
)

// Folder has the generations of one program. It belongs to the user of this process, who alone can write to it. It stays
// the same one if what is above it is moved.
type Folder struct {
	// Path is what people call it.
	Path string
	root *os.Root
}

// OpenFolder makes a folder where it is missing, and opens it.
//
// base is a folder above it that is trusted, such as where a volume is mounted. Below it no symbolic link is followed.
// The first folder below base is shared by all jobs, and the others belong to this one. Without base, path alone does.
func OpenFolder(base, path string) (*Folder, error) {
	if base == "" {
		base = filepath.Dir(path)
		if err := os.MkdirAll(base, ownMode); err != nil {
			return nil, err
		}
	}
	return openFolder(base, path, true)
}

// openFolder is OpenFolder, and fs.ErrNotExist where the folder is missing and is not to be made.
func openFolder(base, path string, create bool) (*Folder, error) {
	parts, err := partsBelow(base, path)
	if err != nil {
		return nil, err
	}
	at, err := unix.Open(base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: base, Err: err}
	}
	for i, part := range parts {
		shared := i == 0 && len(parts) > 1
		next, err := enter(at, part, filepath.Join(base, filepath.Join(parts[:i+1]...)), shared, create)
		unix.Close(at)
		if err != nil {
			return nil, err
		}
		at = next
	}
	defer unix.Close(at)
	root, err := os.OpenRoot(descriptorPath(at))
	if err != nil {
		return nil, err
	}
	return &Folder{path, root}, nil
}

// partsBelow are the names on the way from base to path.
func partsBelow(base, path string) ([]string, error) {
	inside, err := filepath.Rel(base, path)
	if err != nil || inside == "." || !filepath.IsLocal(inside) {
		return nil, fmt.Errorf("%s is not below %s", path, base)
	}
	return strings.Split(inside, string(filepath.Separator)), nil
}

// descriptorPath is a path of what is open, wherever it is by now.
func descriptorPath(descriptor int) string { return fmt.Sprintf("/proc/self/fd/%d", descriptor) }

// enter opens a folder in an open one, and makes it where it is missing and `create` says so.
func enter(at int, name, path string, shared, create bool) (int, error) {
	found, err := openAt(at, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, fs.ErrNotExist) && create {
		err = makeFolder(at, name, shared)
		if errors.Is(err, fs.ErrPermission) && !shared {
			return -1, fmt.Errorf("user %d cannot make %s: the owner of the folder above it can set its mode to 1777",
				os.Geteuid(), path)
		}
		if err != nil {
			return -1, &fs.PathError{Op: "mkdir", Path: path, Err: err}
		}
		found, err = openAt(at, name, unix.O_RDONLY|unix.O_DIRECTORY)
	}
	if err != nil {
		return -1, wordsOf(at, name, path, err)
	}
	if shared {
		err = checkShared(found, path)
	} else {
		err = checkOwn(found, path)
	}
	if err != nil {
		unix.Close(found)
		return -1, err
	}
	return found, nil
}

func makeFolder(at int, name string, shared bool) error {
	var mode uint32 = ownMode
	if shared {
		mode = sharedMode
	}
	// In one step: a folder of which a crash has left another mode would keep other users out.
	before := unix.Umask(0)
	err := ignoringInterrupts(func() error { return unix.Mkdirat(at, name, mode) })
	unix.Umask(before)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// wordsOf says why a folder cannot be entered.
func wordsOf(at int, name, path string, err error) error {
	var about unix.Stat_t
	if unix.Fstatat(at, name, &about, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	switch {
	case about.Mode&unix.S_IFMT == unix.S_IFLNK:
		return fmt.Errorf("%s is a symbolic link", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s belongs to user %d, and user %d cannot use it (mode %#o): its owner can set the mode to 1777",
			path, about.Uid, os.Geteuid(), about.Mode&0o7777)
	default:
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
}

// checkShared sees to it that no job can remove the folder of another in this one.
func checkShared(descriptor int, path string) error {
	var about unix.Stat_t
	if err := unix.Fstat(descriptor, &about); err != nil {
		return err
	}
	if about.Mode&sharedMode == sharedMode {
		return nil
	}
	if int(about.Uid) == os.Geteuid() && unix.Fchmod(descriptor, sharedMode) == nil {
		return nil
	}
	if about.Mode&othersMay != 0 && about.Mode&unix.S_ISVTX == 0 {
		return fmt.Errorf("in %s of user %d each user can remove the snapshots of others (mode %#o): set its mode to 1777",
			path, about.Uid, about.Mode&0o7777)
	}
	return nil
}

// checkOwn refuses a folder of another user, and sees to it that no other user can write to it. A volume with an fsGroup
// is opened for that group each time that it is mounted.
func checkOwn(descriptor int, path string) error {
	var about unix.Stat_t
	if err := unix.Fstat(descriptor, &about); err != nil {
		return err
	}
	if !isOurs(descriptor, about.Uid) {
		return fmt.Errorf("%s belongs to user %d, and this is user %d: remove it, or have it removed",
			path, about.Uid, os.Geteuid())
	}
	if about.Mode&0o077 != 0 {
		_ = unix.Fchmod(descriptor, ownMode)
		if err := unix.Fstat(descriptor, &about); err != nil {
			return err
		}
	}
	if about.Mode&othersMay != 0 {
		return fmt.Errorf("other users can write to %s (mode %#o), and its volume does not let this be changed: use a volume"+
			" whose folders have modes", path, about.Mode&0o7777)
	}
	return nil
}

// isOurs says whether a folder with this owner belongs to the user of this process. Some volumes give users other
// numbers: what this user makes there has the same one then.
func isOurs(descriptor int, owner uint32) bool {
	if int(owner) == os.Geteuid() {
		return true
	}
	name := ".owner-" + rand.Text()
	probe, err := unix.Openat(descriptor, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return false
	}
	defer unix.Close(probe)
	defer func() { _ = unix.Unlinkat(descriptor, name, 0) }()
	var about unix.Stat_t
	return unix.Fstat(probe, &about) == nil && about.Uid == owner
}

// Lock waits until no other run has the folder, which ends with all of its processes.
func (f *Folder) Lock(limit time.Duration) (*os.File, error) {
	file, err := f.root.OpenFile(lockName, os.O_RDWR|os.O_CREATE|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil || errors.Is(err, syscall.ENOTSUP) || errors.Is(err, syscall.ENOLCK) {
			return file, nil
		}
		if time.Since(began) > limit {
			return nil, fmt.Errorf("another run of the program has %s: %w", f.Path, err)
		}
	}
}

// openBeneath opens what is in one of these folders by its path. Below the folder it follows no symbolic link. A path in
// none of them is refused.
func openBeneath(folders []string, path string, flags int) (*os.File, error) {
	// The longest: folders may be mounted in others.
	base := ""
	for _, folder := range folders {
		if _, err := partsBelow(folder, path); err == nil && len(folder) > len(base) {
			base = folder
		}
	}
	if base == "" {
		return nil, fmt.Errorf("%s is in no volume of this program", path)
	}
	parts, err := partsBelow(base, path)
	if err != nil {
		return nil, err
	}
	at, err := unix.Open(base, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: base, Err: err}
	}
	for i, part := range parts {
		how := flags | unix.O_NONBLOCK
		if i < len(parts)-1 {
			how = unix.O_PATH | unix.O_DIRECTORY
		}
		next, err := openAt(at, part, how)
		if err != nil {
			err = wordsOf(at, part, filepath.Join(base, filepath.Join(parts[:i+1]...)), err)
		}
		unix.Close(at)
		if err != nil {
			return nil, err
		}
		at = next
	}
	return os.NewFile(uintptr(at), path), nil
}

func openAt(at int, name string, flags int) (int, error) {
	found := -1
	err := ignoringInterrupts(func() (err error) {
		found, err = unix.Openat(at, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	return found, err
}

// ignoringInterrupts tries again where a signal came first, as on volumes of a network.
func ignoringInterrupts(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// regular opens a regular file in a folder for reading. It never waits, as it would for a pipe.
func regular(root *os.Root, name string) (*os.File, error) {
	file, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if about, err := file.Stat(); err != nil || !about.Mode().IsRegular() {
		file.Close()
		return nil, fmt.Errorf("%s is no regular file", name)
	}
	return file, nil
}

// earlierFolders are the names in the shared folder of a volume that an earlier version has made: names of jobs.
func earlierFolders(base, path string) []string {
	parts, err := partsBelow(base, path)
	if err != nil || len(parts) < 2 {
		return nil
	}
	entries, _ := os.ReadDir(filepath.Join(base, parts[0]))
	var found []string
	for _, entry := range entries {
		if entry.IsDir() && !strings.Contains(entry.Name(), "_") {
			found = append(found, entry.Name())
		}
	}
	slices.Sort(found)
	return found
}
