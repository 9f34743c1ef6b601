// Package keeper runs a program on an engine, keeps its snapshots, and continues it from the newest one.
package keeper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"scavenger.dev/snapshot/pkg/generation"
)

// Exit codes of the keeper's own. All others are the program's.
const (
	// ExitSaved is the convention for checkpointExitCode.
	ExitSaved = 85
	// ExitUntouched says that the snapshot failed, or cannot be used on this node; all snapshots are as they were.
	ExitUntouched = 86
	// ExitEngine says that the engine failed while the program ran on it.
	ExitEngine = 87
	// ExitUsage is a command line that cannot be understood.
	ExitUsage = 125
)

// Program is what runs.
type Program struct {
	Command     []string
	Environment []string
	Folder      string
	Hostname    string
	// Volumes are the folders whose files are not in the snapshot; all other writes of the program are.
	Volumes []string
	// Memory is how much the program finds its machine to have, in bytes.
	Memory uint64
	// Hidden are folders that the program finds empty.
	Hidden []string
	// Lock stays open as long as anything of the program runs.
	Lock *os.File
}

// Engine runs programs so that they can be saved.
type Engine interface {
	Version() string
	Features() []string
	Start(ctx context.Context, program Program) (Sandbox, error)
	Restore(ctx context.Context, program Program, folder string) (Sandbox, error)
}

// Sandbox is a program that an engine runs.
type Sandbox interface {
	Done() <-chan struct{}
	ExitCode() (int, error)
	Pause(ctx context.Context) error
	Save(ctx context.Context, folder string) error
	Resume(ctx context.Context) error
	WrittenFiles() ([]string, error)
	MemoryBytes() int64
	// CPUTimes are those of the engine and of the program on it, since it started or was restored.
	CPUTimes() (engine, program time.Duration)
	Signal(number syscall.Signal) error
	Kill()
}

// Options is what the command line says.
type Options struct {
	Program Program
	// Folder has the generations.
	Folder *generation.Folder
	// Key signs them.
	Key generation.Key
	// Every is the time between two snapshots.
	Every time.Duration
	// Grace is how long the pod may take to end.
	Grace time.Duration
	// Stall ends a dump or a restore that makes no progress for so long.
	Stall time.Duration
	// Owner is the job, or one task of it: its UID, and after a slash the index of the task.
	Owner    string
	Image    string
	ExitCode int
	// Verbose tells of each snapshot.
	Verbose bool
	// Say tells the user what happens.
	Say func(format string, arguments ...any)
	// Warn tells the user and the job what does not work.
	Warn func(format string, arguments ...any)
	// Report tells the job of a checkpoint.
	Report func(moment time.Time)
	// Signals are those that the keeper gets.
	Signals <-chan os.Signal
}

// Keeper runs one program.
type Keeper struct {
	Options
	engine  Engine
	store   *generation.Store
	written []generation.Mark
	host    generation.Host
	// warned of a snapshot that takes longer than the grace period, and of a program that the engine makes slow.
	warned, warnedOfEngine bool
}

const (
	// engineShare is how much CPU time the engine may use for that of the program before the keeper warns.
	engineShare = 0.2
	// engineJudged is the least CPU time of both that says something: starts of programs make many system calls.
	engineJudged = 30 * time.Second
)

// New opens the folder of the generations.
func New(engine Engine, options Options) (*Keeper, error) {
	store, err := generation.Open(options.Folder, options.Key, options.Owner)
	if err != nil {
		return nil, err
	}
	host := generation.Host{
		Owner: options.Owner, Image: options.Image, Command: options.Program.Command,
		Engine: engine.Version(), Features: engine.Features(), Volumes: options.Program.Volumes,
	}
	return &Keeper{Options: options, engine: engine, store: store, host: host}, nil
}

// Ended says whether the program had ended with 0 in an earlier run.
func (k *Keeper) Ended() bool {
	ended, err := k.store.End(k.host)
	if err != nil {
		k.Warn("cannot read how the program ended before: %v", err)
	}
	if ended != nil {
		k.Say("the program ended with 0 at %s; nothing to do", ended.Moment.Format(time.RFC3339))
	}
	return ended != nil
}

// HasSnapshot says whether there is a generation that a node with an engine might continue.
func (k *Keeper) HasSnapshot() bool { return k.store.Usable() }

// Adopt takes over the snapshots that an earlier version has made of this program, and tells of it. Arguments: as for
// generation.Store.Adopt.
func (k *Keeper) Adopt(base, folder string, limit time.Duration) error {
	told, err := k.store.Adopt(base, folder, k.host, limit)
	for _, line := range told {
		k.Warn("%s", line)
	}
	return err
}

// Run continues or starts the program, and returns the exit code.
func (k *Keeper) Run(ctx context.Context) int {
	box, stopping, code := k.launch(ctx)
	if box == nil {
		return code
	}
	defer box.Kill()
	if stopping {
		return k.last(ctx, box)
	}
	clock := time.NewTicker(k.Every)
	defer clock.Stop()
	for {
		select {
		case <-box.Done():
			return k.finish(box)
		case got := <-k.Signals:
			if number := got.(syscall.Signal); number != syscall.SIGTERM {
				if err := box.Signal(number); err != nil {
					k.Warn("cannot pass on %s: %v", number, err)
				}
				continue
			}
			return k.last(ctx, box)
		case <-clock.C:
			k.judgeEngine(box)
			again, code := k.periodic(ctx, box)
			if !again {
				return code
			}
		}
	}
}

// launch restores the newest generation that can be restored, else starts the program. SIGTERM gives that up; when the
// program runs already, it says so.
func (k *Keeper) launch(ctx context.Context) (box Sandbox, stopping bool, code int) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type launched struct {
		box  Sandbox
		code int
	}
	up := make(chan launched, 1)
	go func() {
		box, code := k.restoreOrStart(ctx)
		up <- launched{box, code}
	}()
	for {
		select {
		case result := <-up:
			return result.box, false, result.code
		case got := <-k.Signals:
			if got != syscall.SIGTERM {
				continue
			}
			cancel(errors.New("SIGTERM came first"))
			if result := <-up; result.box != nil {
				return result.box, true, 0
			}
			k.Say("SIGTERM before the program ran: the snapshots are as they were")
			return nil, false, k.ExitCode
		}
	}
}

func (k *Keeper) restoreOrStart(ctx context.Context) (Sandbox, int) {
	numbers, err := k.store.Numbers()
	if err != nil {
		k.Warn("cannot list the snapshots: %v", err)
		return nil, ExitUntouched
	}
	elsewhere := false
	for _, number := range numbers {
		box, err := k.restore(ctx, number)
		if err == nil {
			return box, 0
		}
		if ctx.Err() != nil {
			return nil, ExitUntouched
		}
		elsewhere = elsewhere || errors.Is(err, generation.ErrFeatures)
		k.Warn("refused snapshot %d: %v", number, err)
	}
	if elsewhere {
		k.Warn("the program continues on a node whose CPU has these features")
		return nil, ExitUntouched
	}
	if len(numbers) > 0 {
		k.Warn("no snapshot can be used: the program starts from its beginning")
	}
	limited, cancel := context.WithTimeoutCause(ctx, k.Stall, errors.New("no answer in time"))
	defer cancel()
	box, err := k.engine.Start(limited, k.Program)
	if err != nil {
		k.Warn("cannot run %s: %v", k.Program.Command[0], err)
		return nil, 127
	}
	return box, 0
}

func (k *Keeper) restore(ctx context.Context, number int) (Sandbox, error) {
	manifest, err := k.store.Load(number)
	if err != nil {
		return nil, err
	}
	defer manifest.Close()
	if err := manifest.Unfit(k.host); err != nil {
		return nil, err
	}
	for _, mark := range manifest.Written {
		if err := mark.Unchanged(k.host.Volumes); err != nil {
			return nil, err
		}
	}
	for _, mark := range manifest.Written {
		if err := mark.CutBack(k.host.Volumes); err != nil {
			return nil, err
		}
	}
	program := k.Program
	program.Volumes = manifest.Volumes
	began := time.Now()
	// A restore reads all pages at once and shows no progress: what a slow disk reads in a second is 10 MB.
	limit := k.Stall + time.Duration(k.store.Bytes(number)/(10<<20))*time.Second
	limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not restored within %s", limit))
	defer cancel()
	box, err := k.engine.Restore(limited, program, manifest.Folder)
	if err != nil {
		return nil, err
	}
	k.Program.Volumes = manifest.Volumes
	k.written = manifest.Written
	k.Report(manifest.Moment)
	k.Say("continued from snapshot %d of %s, restored in %.2f s",
		number, manifest.Moment.Format(time.RFC3339), time.Since(began).Seconds())
	return box, nil
}

func (k *Keeper) finish(box Sandbox) int {
	code, err := box.ExitCode()
	if err != nil {
		k.Warn("%v", err)
		return ExitEngine
	}
	if code == 0 {
		ended := generation.Ended{Owner: k.Owner, Command: k.Program.Command, Moment: time.Now().UTC()}
		if err := k.store.Finish(ended); err != nil {
			k.Warn("cannot remove the snapshots: %v", err)
		}
	}
	return code
}

// judgeEngine warns once of a program that the engine makes slow.
func (k *Keeper) judgeEngine(box Sandbox) {
	engine, program := box.CPUTimes()
	if k.warnedOfEngine || engine+program < engineJudged || engine.Seconds() <= engineShare*program.Seconds() {
		return
	}
	k.warnedOfEngine = true
	k.Warn("the engine has used %.0f s of CPU time for %.0f s of the program, which makes many system calls: "+
		"larger reads and writes make it faster", engine.Seconds(), program.Seconds())
}

// periodic takes a snapshot while the program runs, until SIGTERM asks for the last one.
func (k *Keeper) periodic(ctx context.Context, box Sandbox) (again bool, code int) {
	working, cancel := context.WithCancel(ctx)
	defer cancel()
	dump := k.begin(working, box)
	for {
		select {
		case err := <-dump.done:
			if err == nil || errors.Is(err, errProgramEnded) {
				return true, 0
			}
			k.Warn("the snapshot failed, and the program goes on: %v", err)
			if errors.Is(err, errStuck) {
				k.Warn("the engine does not answer: the program ends here")
				return false, ExitEngine
			}
			return true, 0
		case got := <-k.Signals:
			if number := got.(syscall.Signal); number != syscall.SIGTERM {
				go func() { _ = box.Signal(number) }()
				continue
			}
			// What is being saved now is new enough; what is only being hashed is not.
			if dump.keepPaused() {
				k.Say("SIGTERM: the snapshot that is being taken is the last one")
				return false, k.outcome(box, <-dump.done)
			}
			cancel()
			<-dump.done
			return false, k.last(ctx, box)
		}
	}
}

// last takes the snapshot that ends the run.
func (k *Keeper) last(ctx context.Context, box Sandbox) int {
	dump := k.begin(ctx, box)
	dump.keepPaused()
	for {
		select {
		case err := <-dump.done:
			return k.outcome(box, err)
		case <-k.Signals: // Another one changes nothing.
		}
	}
}

func (k *Keeper) outcome(box Sandbox, err error) int {
	if errors.Is(err, errProgramEnded) {
		return k.finish(box)
	}
	if err != nil {
		k.Warn("the snapshot failed; the one before counts: %v", err)
		return ExitUntouched
	}
	return k.ExitCode
}
