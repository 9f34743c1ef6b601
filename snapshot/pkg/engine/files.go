package engine

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/log"
	"gvisor.dev/gvisor/pkg/unet"
	"gvisor.dev/gvisor/runsc/boot"
	"gvisor.dev/gvisor/runsc/config"
	"gvisor.dev/gvisor/runsc/fsgofer"
)

// umask is that of the program. This process has none: modes come from the program's kernel, which has applied it.
var umask = sync.OnceValue(func() uint32 { return uint32(unix.Umask(0)) })

// RestoreUmask undoes what serving files needed.
func RestoreUmask() { unix.Umask(int(umask())) }

var openDescriptors = sync.OnceValue(func() error {
	umask()
	// What fails is returned as an error; the kernel's log is its own.
	log.SetTarget(&log.GoogleEmitter{Writer: &log.Writer{Next: io.Discard}})
	return fsgofer.OpenProcSelfFD("/proc/self/fd")
})

// serveFiles serves `/` of this container, and each volume, to the kernel. What the program writes outside of the
// volumes stays in the kernel's memory, and so in the snapshot.
//
// Returns the sockets of the kernel, and how it mounts what they serve.
func serveFiles(volumes []string) (sockets []*os.File, mounts []boot.GoferMountConf, err error) {
	if err := openDescriptors(); err != nil {
		return nil, nil, err
	}
	server := fsgofer.NewLisafsServer(fsgofer.Config{
		HostUDS: config.HostUDSNone, HostFifo: config.HostFifoNone,
		RUID: os.Getuid(), EUID: os.Geteuid(), RGID: os.Getgid(), EGID: os.Getegid(),
	})
	for _, path := range append([]string{"/"}, volumes...) {
		ours, theirs, err := unet.SocketPair(false)
		if err != nil {
			return nil, nil, fmt.Errorf("make a socket for the files of %s: %w", path, err)
		}
		connection, err := server.CreateConnection(ours, path, path == "/")
		if err != nil {
			return nil, nil, fmt.Errorf("serve the files of %s: %w", path, err)
		}
		server.StartConnection(connection)
		descriptor, err := theirs.Release()
		if err != nil {
			return nil, nil, err
		}
		sockets = append(sockets, os.NewFile(uintptr(descriptor), "files of "+path))
		upper := boot.NoOverlay
		if path == "/" {
			upper = boot.MemoryOverlay
		}
		mounts = append(mounts, boot.GoferMountConf{Lower: boot.Lisafs, Upper: upper})
	}
	return sockets, mounts, nil
}

// writtenFiles lists the regular files below the volumes that this process has open for writing, which the file server
// does for the program. The kernel keeps a file open for a while after the program has closed it.
func writtenFiles(volumes []string) ([]string, error) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil, err
	}
	var found []string
	for _, entry := range entries {
		path, err := os.Readlink("/proc/self/fd/" + entry.Name())
		if err != nil || !within(path, volumes) || !openForWriting(entry.Name()) {
			continue
		}
		if about, err := os.Lstat(path); err == nil && about.Mode().IsRegular() {
			found = append(found, path)
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

func within(path string, folders []string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		inside, err := filepath.Rel(folder, path)
		return err == nil && inside != ".." && !strings.HasPrefix(inside, "../")
	})
}

func openForWriting(descriptor string) bool {
	number, err := strconv.Atoi(descriptor)
	if err != nil {
		return false
	}
	flags, err := unix.FcntlInt(uintptr(number), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_PATH == 0 && flags&unix.O_ACCMODE != unix.O_RDONLY
}
