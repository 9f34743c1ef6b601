package keeper_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"scavenger.dev/snapshot/pkg/generation"
	"scavenger.dev/snapshot/pkg/keeper"
)

// standIn is an engine whose program is a number that its test sets: what fails or hangs is what the test says.
type standIn struct {
	features          []string
	started, restored []*program
	boxes             chan *program
	restore           func() error
	prepare           func(*program)
}

type program struct {
	state               string
	pausing             func(ctx context.Context) error
	saving              func(ctx context.Context, folder string) error
	done                chan struct{}
	code                int
	err                 error
	mu                  sync.Mutex
	paused              bool
	killed              bool
	memory              int64
	engineTime, ownTime time.Duration
	files               []string
}

func (e *standIn) Version() string    { return "stand-in 1" }
func (e *standIn) Features() []string { return append([]string{"sse"}, e.features...) }

func (e *standIn) open(state string) *program {
	b := &program{state: state, done: make(chan struct{})}
	if e.prepare != nil {
		e.prepare(b)
	}
	e.boxes <- b
	return b
}

func (e *standIn) Start(context.Context, keeper.Program) (keeper.Sandbox, error) {
	b := e.open("beginning")
	e.started = append(e.started, b)
	return b, nil
}

func (e *standIn) Restore(_ context.Context, _ keeper.Program, folder string) (keeper.Sandbox, error) {
	if e.restore != nil {
		if err := e.restore(); err != nil {
			return nil, err
		}
	}
	content, err := os.ReadFile(filepath.Join(folder, "state"))
	if err != nil {
		return nil, err
	}
	b := e.open(string(content))
	e.restored = append(e.restored, b)
	return b, nil
}

func (b *program) Done() <-chan struct{}  { return b.done }
func (b *program) ExitCode() (int, error) { return b.code, b.err }

func (b *program) set(paused bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paused = paused
}

func (b *program) Pause(ctx context.Context) error {
	if b.pausing != nil {
		return b.pausing(ctx)
	}
	b.set(true)
	return nil
}

func (b *program) Resume(context.Context) error {
	b.set(false)
	return nil
}

func (b *program) Save(ctx context.Context, folder string) error {
	if b.saving != nil {
		return b.saving(ctx, folder)
	}
	return os.WriteFile(filepath.Join(folder, "state"), []byte(b.state), 0o600)
}

func (b *program) WrittenFiles() ([]string, error)       { return b.files, nil }
func (b *program) MemoryBytes() int64                    { return b.memory }
func (b *program) CPUTimes() (engine, own time.Duration) { return b.engineTime, b.ownTime }
func (b *program) Signal(syscall.Signal) error           { return nil }
func (b *program) Kill()                                 { b.killed = true }

func (b *program) end(code int) {
	b.code = code
	close(b.done)
}

type run struct {
	t       *testing.T
	engine  *standIn
	options keeper.Options
	signals chan os.Signal
	dir     string
	mu      sync.Mutex
	said    []string
	reports chan time.Time
	told    chan struct{}
}

func newRun(t *testing.T, every time.Duration) *run {
	r := &run{
		t: t, engine: &standIn{boxes: make(chan *program, 8)}, signals: make(chan os.Signal, 8),
		dir:     t.TempDir(),
		reports: make(chan time.Time, 1000), told: make(chan struct{}, 100),
	}
	r.options = keeper.Options{
		Program: keeper.Program{Command: []string{"count"}, Volumes: []string{t.TempDir()}}, Every: every, Grace: time.Hour,
		Stall: time.Minute, ExitCode: keeper.ExitSaved, Signals: r.signals,
		Report: func(moment time.Time) { r.reports <- moment },
		Say: func(format string, arguments ...any) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.said = append(r.said, fmt.Sprintf(format, arguments...))
			r.told <- struct{}{}
		},
		Warn: func(format string, arguments ...any) { r.options.Say("warning: "+format, arguments...) },
	}
	return r
}

func (r *run) keeper() *keeper.Keeper {
	r.t.Helper()
	folder, err := generation.OpenFolder("", r.dir)
	if err != nil {
		r.t.Fatal(err)
	}
	r.options.Folder = folder
	kept, err := keeper.New(r.engine, r.options)
	if err != nil {
		r.t.Fatal(err)
	}
	return kept
}

func (r *run) start() (*program, <-chan int) {
	r.t.Helper()
	kept := r.keeper()
	code := make(chan int, 1)
	go func() { code <- kept.Run(context.Background()) }()
	return <-r.engine.boxes, code
}

func (r *run) expect(code <-chan int, want int) {
	r.t.Helper()
	found := <-code
	r.mu.Lock()
	defer r.mu.Unlock()
	if found != want {
		r.t.Errorf("ended with %d, want %d; said %q", found, want, r.said)
	}
}

func (r *run) hasSaid(text string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !strings.Contains(strings.Join(r.said, "\n"), text) {
		r.t.Errorf("said %q, and not %q", r.said, text)
	}
}

func TestSigtermSavesAndTheNextRunContinues(t *testing.T) {
	r := newRun(t, time.Hour)
	before := time.Now()
	first, code := r.start()
	first.state = "half"
	r.signals <- syscall.SIGTERM
	r.expect(code, keeper.ExitSaved)
	moment := <-r.reports
	if moment.Before(before) || moment.After(time.Now()) {
		t.Errorf("the moment of the pause is %s", moment)
	}
	if !first.paused {
		t.Error("the program went on after what was saved")
	}
	second, code := r.start()
	if second.state != "half" {
		t.Errorf("continued from %q", second.state)
	}
	second.end(3)
	r.expect(code, 3)
}

func TestThePeriodicSnapshotCountsAfterAKill(t *testing.T) {
	r := newRun(t, time.Millisecond)
	r.engine.prepare = func(b *program) { b.state = "saved" }
	running, ended := r.start()
	defer func() {
		running.end(1)
		r.expect(ended, 1)
	}()
	<-r.reports // Killed at any moment from here on.
	r.engine.prepare = nil
	again := newRun(t, time.Hour)
	again.dir, again.options.Program = copyOf(t, r.dir), r.options.Program
	box, code := again.start()
	if box.state != "saved" {
		t.Errorf("continued from %q", box.state)
	}
	box.end(1)
	again.expect(code, 1)
}

// copyOf is the folder as a killed run leaves it: the run that it is copied from goes on in the meantime.
func copyOf(t *testing.T, folder string) string {
	t.Helper()
	for {
		target := filepath.Join(t.TempDir(), "copy")
		if err := os.CopyFS(target, os.DirFS(folder)); err == nil {
			return target
		}
	}
}

func TestAProgramThatEndsIsNotRunAgain(t *testing.T) {
	r := newRun(t, time.Hour)
	box, code := r.start()
	box.end(0)
	r.expect(code, 0)
	if !r.keeper().Ended() {
		t.Error("it would run again")
	}
}

func TestAFailedSnapshotLeavesTheProgramAndTheOneBefore(t *testing.T) {
	full := func(context.Context, string) error { return errors.New("no space left on device") }
	r := newRun(t, time.Hour)
	_, code := r.start()
	r.signals <- syscall.SIGTERM
	r.expect(code, keeper.ExitSaved)
	<-r.reports
	for range 2 {
		r.engine.prepare = func(b *program) { b.saving = full }
		box, code := r.start()
		if box.state != "beginning" {
			t.Errorf("continued from %q", box.state)
		}
		<-r.reports
		r.signals <- syscall.SIGTERM
		r.expect(code, keeper.ExitUntouched)
		r.hasSaid("no space left on device")
	}
	if len(r.reports) > 0 {
		t.Error("a snapshot that failed was reported")
	}
}

func TestANodeWithoutTheFeaturesOfTheCPULeavesTheSnapshotToOthers(t *testing.T) {
	r := newRun(t, time.Hour)
	r.engine.features = []string{"avx512"}
	_, code := r.start()
	r.signals <- syscall.SIGTERM
	r.expect(code, keeper.ExitSaved)
	r.engine.features = nil
	kept := r.keeper()
	if code := kept.Run(context.Background()); code != keeper.ExitUntouched {
		t.Errorf("ended with %d", code)
	}
	r.hasSaid("warning: refused snapshot 1: the CPU of this node lacks avx512")
	if !kept.HasSnapshot() || len(r.engine.started) != 1 {
		t.Errorf("started %d times, has a snapshot: %t", len(r.engine.started), kept.HasSnapshot())
	}
}

func TestAFullVolumeIsSaidBeforeTheProgramIsPaused(t *testing.T) {
	r := newRun(t, time.Hour)
	r.engine.prepare = func(b *program) { b.memory = 1 << 60 }
	box, code := r.start()
	box.pausing = func(context.Context) error {
		t.Error("paused")
		return nil
	}
	r.signals <- syscall.SIGTERM
	r.expect(code, keeper.ExitUntouched)
	r.hasSaid("the volume is full: about")
}

func TestAnEngineThatHangsIsGivenUp(t *testing.T) {
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for name, want := range map[string]int{"periodic": keeper.ExitEngine, "last": keeper.ExitUntouched} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, time.Hour)
			r.options.Stall = 50 * time.Millisecond
			if name == "periodic" {
				r.options.Every = time.Millisecond
			}
			r.engine.prepare = func(b *program) { b.pausing = hang }
			box, code := r.start()
			if name == "last" {
				r.signals <- syscall.SIGTERM
			}
			r.expect(code, want)
			r.hasSaid("no progress for 50ms")
			if !box.killed {
				t.Error("the engine was left behind")
			}
		})
	}
}

func TestAProgramThatTheEngineMakesSlowIsToldOnce(t *testing.T) {
	for _, c := range []struct {
		engine, program time.Duration
		told            int
	}{
		{19 * time.Second, 100 * time.Second, 0},
		{21 * time.Second, 100 * time.Second, 1},
		{14 * time.Second, 15 * time.Second, 0},
		{0, 0, 0},
	} {
		r := newRun(t, time.Millisecond)
		r.engine.prepare = func(b *program) { b.engineTime, b.ownTime = c.engine, c.program }
		box, code := r.start()
		for range 5 {
			<-r.reports
		}
		box.end(1)
		r.expect(code, 1)
		if told := strings.Count(strings.Join(r.said, "\n"), "warning: the engine has used"); told != c.told {
			t.Errorf("%v: told %d times, want %d: %q", c, told, c.told, r.said)
		}
	}
}

func TestAProgramThatEndsWhileItIsSavedKeepsItsCode(t *testing.T) {
	r := newRun(t, time.Hour)
	saving := make(chan struct{})
	r.engine.prepare = func(b *program) {
		b.saving = func(ctx context.Context, _ string) error {
			close(saving)
			<-ctx.Done()
			return ctx.Err()
		}
	}
	box, code := r.start()
	r.signals <- syscall.SIGTERM
	<-saving
	box.end(7)
	r.expect(code, 7)
}

func TestSigtermDuringAPeriodicSnapshotNeedsNoOther(t *testing.T) {
	r := newRun(t, time.Millisecond)
	saving, goOn := make(chan struct{}), make(chan struct{})
	r.engine.prepare = func(b *program) {
		b.saving = func(_ context.Context, folder string) error {
			close(saving) // A second one would panic.
			<-goOn
			return os.WriteFile(filepath.Join(folder, "state"), []byte("saved"), 0o600)
		}
	}
	box, code := r.start()
	<-saving
	r.signals <- syscall.SIGTERM
	<-r.told
	close(goOn)
	r.expect(code, keeper.ExitSaved)
	if !box.paused {
		t.Error("the program went on after what was saved")
	}
}

func TestTheGenerationBeforeIsTakenWhenTheNewestIsRefused(t *testing.T) {
	r := newRun(t, time.Hour)
	log := filepath.Join(r.options.Program.Volumes[0], "log")
	write(t, log, "12")
	r.engine.prepare = func(b *program) { b.files = []string{log} }
	for _, saved := range []struct{ state, log string }{{"first", "12"}, {"second", "1234"}} {
		box, code := r.start()
		box.state = saved.state
		write(t, log, saved.log)
		r.signals <- syscall.SIGTERM
		r.expect(code, keeper.ExitSaved)
	}
	write(t, log, "12") // Shorter than the second has it, as after a crash of the node.
	box, code := r.start()
	if box.state != "first" {
		t.Errorf("continued from %q", box.state)
	}
	r.hasSaid("refused snapshot 2: " + log + " has 2 bytes, and had 4")
	box.end(1)
	r.expect(code, 1)
	write(t, log, "")
	box, code = r.start()
	if box.state != "beginning" {
		t.Errorf("continued from %q", box.state)
	}
	r.hasSaid("the program starts from its beginning")
	box.end(1)
	r.expect(code, 1)
}

func TestTheGenerationBeforeIsTakenWhenTheNewestIsTorn(t *testing.T) {
	r := newRun(t, time.Hour)
	for _, state := range []string{"first", "second"} {
		box, code := r.start()
		box.state = state
		r.signals <- syscall.SIGTERM
		r.expect(code, keeper.ExitSaved)
	}
	for _, name := range []string{"state", "manifest.json"} {
		path := filepath.Join(r.dir, "gen-000002", name)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for cut := range 21 {
			write(t, path, string(whole[:len(whole)*cut/20]))
			want := "first"
			if cut == 20 {
				want = "second"
			}
			box, code := r.start()
			if box.state != want {
				t.Errorf("%s with %d of 20 parts: continued from %q", name, cut, box.state)
			}
			box.end(1)
			r.expect(code, 1)
		}
	}
}

func TestASnapshotThatDoesNotFitTheGracePeriodIsSaidOnce(t *testing.T) {
	r := newRun(t, time.Millisecond)
	r.options.Grace = 0
	box, code := r.start()
	<-r.reports
	<-r.reports
	<-r.reports
	box.end(1)
	r.expect(code, 1)
	if found := strings.Count(strings.Join(r.said, "\n"), "only the periodic ones count"); found != 1 {
		t.Errorf("said %d times", found)
	}
}

func TestTheTerminationMessageEndsWithTheCheckpoint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "termination-log")
	write(t, path, "")
	t.Setenv("SCAVENGER_TERMINATION_MESSAGE_PATH", path)
	var messages keeper.Messages
	messages.Report(time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC))
	messages.Say("one line")
	found, _ := os.ReadFile(path)
	if string(found) != "one line\ncheckpoint=2026-01-02T03:04:05.000006Z\n" {
		t.Errorf("found %q", found)
	}
	messages.Say(strings.Repeat("long ", 2000))
	found, _ = os.ReadFile(path)
	if len(found) != 4096 || !strings.HasSuffix(string(found), "\ncheckpoint=2026-01-02T03:04:05.000006Z\n") {
		t.Errorf("%d bytes end with %q", len(found), found[len(found)-60:])
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
