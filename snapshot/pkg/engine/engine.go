// Package engine runs a program on gVisor's kernel in an ordinary container, so that its state can be saved and
// restored. The kernel isolates nothing here: it makes the state serialisable.
package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/control/server"
	"gvisor.dev/gvisor/pkg/cpuid"
	"gvisor.dev/gvisor/pkg/sentry/control"
	"gvisor.dev/gvisor/pkg/unet"
	"gvisor.dev/gvisor/pkg/urpc"
	"gvisor.dev/gvisor/runsc/boot"

	"scavenger.dev/snapshot/pkg/keeper"
)

const (
	stateFile = "state"
	metaFile  = "pages-meta"
	pagesFile = "pages"
	// ready is the first byte of the status pipe: the kernel takes commands.
	ready = 'r'
	// endLimit is how long after its connections the kernel may end.
	endLimit = time.Second
	// logLimit bounds what is kept of the kernel's log.
	logLimit = 16 << 10
)

// Engine is gVisor's kernel, one process for each program.
type Engine struct{}

// Version names what can read the state: the module's version, which is all that changes the format.
func (Engine) Version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "gvisor.dev/gvisor" {
				return "gvisor " + module.Version
			}
		}
	}
	return "gvisor unknown"
}

// Features lists what the CPU of this host can do.
func (Engine) Features() []string {
	cpuid.Initialize()
	set := cpuid.HostFeatureSet()
	var names []string
	for _, feature := range cpuid.AllFeatures() {
		if set.HasFeature(feature) {
			names = append(names, feature.String())
		}
	}
	return names
}

// Start runs the program from its beginning.
func (Engine) Start(ctx context.Context, program keeper.Program) (keeper.Sandbox, error) {
	box, err := newSandbox(ctx, program)
	if err != nil {
		return nil, err
	}
	defer box.hide()
	id := sandboxID
	if err := box.call(ctx, boot.ContMgrRootContainerStart, &id, nil); err != nil {
		return nil, box.failed("start the program", err)
	}
	return box, nil
}

// Restore continues the program from the state in folder.
func (Engine) Restore(ctx context.Context, program keeper.Program, folder string) (keeper.Sandbox, error) {
	var options boot.RestoreOpts
	options.HavePagesFile = true
	for _, name := range []string{stateFile, metaFile, pagesFile} {
		file, err := os.Open(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		defer file.Close()
		options.Files = append(options.Files, file)
	}
	box, err := newSandbox(ctx, program)
	if err != nil {
		return nil, err
	}
	defer box.hide()
	if err := box.call(ctx, boot.ContMgrRestore, &options, nil); err != nil {
		return nil, box.failed("restore the program", err)
	}
	// The restored kernel has a new server for its commands, which ends the connections of the one before.
	if err := box.connect(); err != nil {
		return nil, box.failed("reach the engine", err)
	}
	return box, nil
}

type sandbox struct {
	process *os.Process
	address string
	control *urpc.Client
	signals *urpc.Client
	volumes []string
	exited  chan struct{}
	copied  []chan struct{}
	ended   chan struct{}
	status  unix.WaitStatus
	err     error
	log     *tail
}

func newSandbox(ctx context.Context, program keeper.Program) (made *sandbox, err error) {
	sockets, mounts, err := serveFiles(program.Volumes)
	defer closeAll(sockets)
	if err != nil {
		return nil, err
	}
	address, listening, err := controlSocket()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(filepath.Dir(address))
		}
	}()
	sockets = append([]*os.File{listening}, sockets...)

	arguments, argumentsIn, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	statusOut, status, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	box := &sandbox{address: address, volumes: program.Volumes, ended: make(chan struct{}), exited: make(chan struct{}), log: &tail{}}
	command := exec.Command("/proc/self/exe", BootCommand)
	command.Args[0] = os.Args[0]
	command.Stderr = box.log
	command.WaitDelay = time.Second
	outputs, err := box.outputs(os.Stdout, os.Stderr)
	if err != nil {
		return nil, err
	}
	inherited := []*os.File{arguments, listening, status, os.Stdin, outputs[0], outputs[1]}
	command.ExtraFiles = append(inherited, sockets[1:]...)
	if program.Lock != nil {
		command.ExtraFiles = append(command.ExtraFiles, program.Lock)
	}
	// Signals of a terminal reach this process, which passes them on; a kernel never outlives it.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The signal comes when the thread that started the process ends.
		runtime.LockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait()
			close(box.exited)
			// A process that the kernel has left behind may hold the pipe open.
			_ = statusOut.SetReadDeadline(time.Now().Add(time.Second))
		}
	}()
	err = <-started
	closeAll([]*os.File{arguments, status})
	for _, output := range outputs {
		if output != os.Stdout && output != os.Stderr {
			output.Close()
		}
	}
	if err != nil {
		closeAll([]*os.File{argumentsIn, statusOut})
		return nil, fmt.Errorf("start the engine: %w", err)
	}
	box.process = command.Process
	go func() {
		defer argumentsIn.Close()
		_ = json.NewEncoder(argumentsIn).Encode(bootArguments{specOf(program), mounts, program.Memory})
	}()
	if err := box.awaitReady(ctx, statusOut); err != nil {
		return nil, box.failed("start the engine", err)
	}
	if err := box.connect(); err != nil {
		return nil, box.failed("reach the engine", err)
	}
	link := boot.DefaultLoopbackLink
	loopback := boot.CreateLinksAndRoutesArgs{LoopbackLinks: []boot.LoopbackLink{link}}
	if err := box.call(ctx, boot.NetworkCreateLinksAndRoutes, &loopback, nil); err != nil {
		return nil, box.failed("make the loopback interface", err)
	}
	return box, nil
}

// outputs are the files for the kernel to write to. The kernel keeps an offset of its own in a regular file, so it writes
// to one through a pipe: others may write to the file as well.
func (s *sandbox) outputs(files ...*os.File) ([]*os.File, error) {
	for i, file := range files {
		if about, err := file.Stat(); err != nil || !about.Mode().IsRegular() {
			continue
		}
		out, in, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		copied := make(chan struct{})
		go func() {
			defer close(copied)
			defer out.Close()
			_, _ = io.Copy(file, out)
		}()
		s.copied, files[i] = append(s.copied, copied), in
	}
	return files, nil
}

// controlSocket makes a socket in a folder of its own, where this container can write.
func controlSocket() (string, *os.File, error) {
	var problems []error
	for _, parent := range []string{os.TempDir(), "/dev/shm"} {
		folder, err := os.MkdirTemp(parent, "snap")
		if err != nil {
			problems = append(problems, err)
			continue
		}
		address := filepath.Join(folder, "control")
		descriptor, err := server.CreateSocket(address)
		if err != nil {
			os.RemoveAll(folder)
			problems = append(problems, err)
			continue
		}
		return address, os.NewFile(uintptr(descriptor), "control"), nil
	}
	return "", nil, fmt.Errorf("make a socket for the engine: %w", errors.Join(problems...))
}

func (s *sandbox) awaitReady(ctx context.Context, status *os.File) error {
	up := make(chan error, 1)
	go func() {
		defer close(s.ended)
		defer status.Close()
		first := make([]byte, 1)
		_, err := io.ReadFull(status, first)
		up <- err
		if err != nil {
			s.err = errors.New("the engine ended before it was ready")
			return
		}
		var ended uint32
		if err := binary.Read(status, binary.LittleEndian, &ended); err != nil {
			s.err = errors.New("the engine ended before the program")
			return
		}
		s.status = unix.WaitStatus(ended)
	}()
	select {
	case err := <-up:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hide removes the address of the kernel, which nobody else is to find.
func (s *sandbox) hide() { os.RemoveAll(filepath.Dir(s.address)) }

func (s *sandbox) connect() error {
	for _, client := range []**urpc.Client{&s.control, &s.signals} {
		socket, err := unet.Connect(s.address, false)
		if err != nil {
			return err
		}
		if *client != nil {
			(*client).Close()
		}
		*client = urpc.NewClient(socket)
	}
	return nil
}

// call asks the kernel, and gives up with ctx; who gives up has to kill the kernel.
func (s *sandbox) call(ctx context.Context, method string, argument, result any) error {
	answered := make(chan error, 1)
	go func() { answered <- s.control.Call(method, argument, result) }()
	select {
	case err := <-answered:
		if !isBroken(err) {
			return err
		}
		// The kernel ends with the program, and its connections a moment before its process. The keeper sees that end.
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(endLimit):
			return err
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// isBroken says whether the other end of a connection has gone.
func isBroken(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF)
}

func (s *sandbox) failed(doing string, err error) error {
	s.Kill()
	return fmt.Errorf("%s: %w%s", doing, err, s.log)
}

// Done is closed when the program has ended, or the kernel.
func (s *sandbox) Done() <-chan struct{} { return s.ended }

// ExitCode is that of the program, as a shell tells it; an error says that the kernel failed. After Done.
func (s *sandbox) ExitCode() (int, error) {
	switch {
	case s.err != nil:
		return 0, fmt.Errorf("%w%s", s.err, s.log)
	case s.status.Signaled():
		return 128 + int(s.status.Signal()), nil
	default:
		return s.status.ExitStatus(), nil
	}
}

// Pause stops all threads of the program.
func (s *sandbox) Pause(ctx context.Context) error {
	return s.call(ctx, boot.ContMgrPause, nil, nil)
}

// Resume lets the program go on after Pause.
func (s *sandbox) Resume(ctx context.Context) error {
	return s.call(ctx, boot.ContMgrResume, nil, nil)
}

// Save writes the state of the paused program into folder.
func (s *sandbox) Save(ctx context.Context, folder string) error {
	options := control.SaveOpts{HavePagesFile: true, Resume: true}
	for _, name := range []string{stateFile, metaFile, pagesFile} {
		file, err := os.OpenFile(filepath.Join(folder, name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		defer file.Close()
		options.Files = append(options.Files, file)
	}
	return s.call(ctx, boot.ContMgrCheckpoint, &options, nil)
}

// WrittenFiles lists the files of the volumes that the program has open for writing.
func (s *sandbox) WrittenFiles() ([]string, error) { return writtenFiles(s.volumes) }

// MemoryBytes is what the program and the kernel hold in memory.
func (s *sandbox) MemoryBytes() int64 { return residentMemory(s.process.Pid) }

// CPUTimes is implemented by cpuTimes.
func (s *sandbox) CPUTimes() (engine, program time.Duration) { return cpuTimes(s.process.Pid) }

// Signal sends a signal to the program.
func (s *sandbox) Signal(number syscall.Signal) error {
	arguments := boot.SignalArgs{CID: sandboxID, Signo: int32(number), Mode: boot.DeliverToProcess}
	return s.signals.Call(boot.ContMgrSignal, &arguments, nil)
}

// Kill ends the kernel, and the program with it.
func (s *sandbox) Kill() {
	_ = s.process.Kill()
	<-s.exited
	for _, copied := range s.copied {
		select {
		case <-copied:
		case <-time.After(time.Second):
		}
	}
}

func specOf(program keeper.Program) specs.Spec {
	mask := umask()
	process := specs.Process{
		Args: program.Command, Env: program.Environment, Cwd: program.Folder, NoNewPrivileges: true,
		User: specs.User{UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), Umask: &mask},
	}
	if groups, err := os.Getgroups(); err == nil {
		for _, group := range groups {
			process.User.AdditionalGids = append(process.User.AdditionalGids, uint32(group))
		}
	}
	mounts := []specs.Mount{{
		Type: "tmpfs", Source: "tmpfs", Destination: "/dev/shm", Options: []string{"mode=1777"},
	}}
	for _, volume := range program.Volumes {
		mounts = append(mounts, specs.Mount{Type: "bind", Source: volume, Destination: volume, Options: []string{"rw"}})
	}
	for _, folder := range program.Hidden {
		mounts = append(mounts, specs.Mount{Type: "tmpfs", Source: "tmpfs", Destination: folder, Options: []string{"ro"}})
	}
	return specs.Spec{
		Version: specs.Version, Hostname: program.Hostname, Process: &process,
		Root: &specs.Root{Path: "/"}, Mounts: mounts,
	}
}

func closeAll(files []*os.File) {
	for _, file := range files {
		file.Close()
	}
}

// tail keeps the end of the kernel's log.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, text...)
	if extra := len(t.kept) - logLimit; extra > 0 {
		t.kept = t.kept[extra:]
	}
	return len(text), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.kept) == 0 {
		return ""
	}
	return "; the engine's log ends with:\n" + string(bytes.TrimSpace(t.kept))
}
