// snap runs a program that writes no checkpoints so that it survives an interruption: docs/programs.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"scavenger.dev/snapshot/pkg/engine"
	"scavenger.dev/snapshot/pkg/generation"
	"scavenger.dev/snapshot/pkg/keeper"
)

const usage = `usage: snap run --dir DIR [--every 10m] [options] -- COMMAND [ARGUMENT...]
       snap install DIR     copy this program into DIR, for an init container
       snap version         print the version of the engine

snap run keeps snapshots of the program in DIR, continues from the newest one, and ends with the code of the program.
`

// tryLimit bounds the start of the engine, before the program runs on it.
const tryLimit = time.Minute

// lockLimit is how long an earlier run may take to end.
const lockLimit = 20 * time.Second

// nothing is the argument with which this binary ends at once: the first program that is tried on the engine.
const nothing = "nothing"

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(arguments []string) int {
	if len(arguments) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return keeper.ExitUsage
	}
	switch arguments[0] {
	case engine.BootCommand:
		if err := engine.Boot(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	case nothing:
		return 0
	case "run":
		return runProgram(arguments[1:])
	case "install":
		return install(arguments[1:])
	case "version":
		fmt.Println(engine.Engine{}.Version())
		return 0
	default:
		fmt.Fprint(os.Stderr, usage)
		return keeper.ExitUsage
	}
}

type folders []string

func (f *folders) String() string { return strings.Join(*f, ",") }

func (f *folders) Set(value string) error {
	absolute, err := filepath.Abs(value)
	*f = append(*f, absolute)
	return err
}

// command is the command line of `snap run`.
type command struct {
	keeper.Options
	// base is where the volume of the snapshots is mounted, dir their folder, and adopt that of an earlier version.
	base, dir, adopt string
	// key is the folder of the mounted Secret with the key of the job.
	key string
}

func parse(arguments []string) (command, error) {
	var options command
	var base, dir, adopt, key, volumes folders
	flags := flag.NewFlagSet("snap run", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage+"\noptions:\n")
		flags.PrintDefaults()
	}
	flags.Var(&dir, "dir", "`folder` of the snapshots, on a volume that outlives the pod")
	flags.Var(&base, "base", "`folder` above --dir where the volume is mounted: below it no symbolic link is followed, and its"+
		" first folder is shared by jobs of all users")
	flags.Var(&key, "key", "`folder` of the mounted Secret whose key signs the snapshots; needs --base, --owner and"+
		" --image-id")
	flags.Var(&adopt, "adopt", "`folder` of the snapshots of an earlier version of snap, to take over where the Secret says"+
		" that the job has run before")
	flags.Var(&volumes, "volume", "`folder` whose files are not in the snapshots; repeat it; without it, the volumes that"+
		" are mounted here, but for emptyDirs")
	flags.DurationVar(&options.Every, "every", 10*time.Minute, "time between two snapshots")
	flags.DurationVar(&options.Grace, "grace", 30*time.Second, "terminationGracePeriodSeconds of the pod")
	flags.DurationVar(&options.Stall, "stall", time.Minute, "end a dump that has made no progress for so long")
	flags.StringVar(&options.Image, "image-id", "", "refuse snapshots that another image has made")
	flags.StringVar(&options.Owner, "owner", "", "refuse snapshots of another owner, such as the UID of the job, or UID/INDEX of a task")
	flags.BoolVar(&options.Verbose, "verbose", false, "tell of each snapshot")
	flags.IntVar(&options.ExitCode, "exit-code", keeper.ExitSaved, "checkpointExitCode of the job")
	if err := flags.Parse(arguments); err != nil {
		return options, err
	}
	switch {
	case len(dir) != 1:
		return options, errors.New("--dir: name one folder, on a volume that outlives the pod")
	case options.Every < 100*time.Millisecond:
		return options, errors.New("--every: use 100ms or more, such as 10m")
	case options.Stall < time.Second:
		return options, errors.New("--stall: use a second or more, such as 1m")
	case options.ExitCode < 1 || options.ExitCode > 255:
		return options, errors.New("--exit-code: use 1 to 255, as in checkpointExitCode")
	case flags.NArg() == 0:
		return options, errors.New("name the program after --")
	}
	options.dir, options.base, options.adopt, options.key = dir[0], last(base), last(adopt), last(key)
	if err := options.checkKey(); err != nil {
		return options, err
	}
	options.Program.Command = flags.Args()
	options.Program.Volumes = volumes
	return options, nil
}

// last is the last of some folders; empty where there is none.
func last(some folders) string {
	if len(some) == 0 {
		return ""
	}
	return some[len(some)-1]
}

// checkKey says what a key needs: what it signs names the job and its image.
func (c *command) checkKey() error {
	switch {
	case c.key == "" && c.adopt != "":
		return errors.New("--adopt: name the folder of the key as well, by --key")
	case c.key != "" && (c.base == "" || c.Owner == "" || c.Image == ""):
		return errors.New("--key: it needs --base, --owner and --image-id")
	}
	return nil
}

// open opens the folder of the snapshots, waits until no other run has it, and reads the key.
func (c *command) open() (err error) {
	if c.key != "" {
		secret, err := generation.ReadSecret(c.key, c.Owner)
		if err != nil {
			return err
		}
		c.Key, c.Program.Hidden = secret.Key, []string{c.key}
		if !secret.Adopt {
			c.adopt = ""
		}
	}
	if c.Folder, err = generation.OpenFolder(c.base, c.dir); err == nil {
		c.Program.Lock, err = c.Folder.Lock(lockLimit)
	}
	return err
}

func runProgram(arguments []string) int {
	options, err := parse(arguments)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "snap run: %v\n", err)
		return keeper.ExitUsage
	}
	messages := &keeper.Messages{}
	options.Report = messages.Report
	options.Say = func(format string, arguments ...any) {
		fmt.Fprintln(os.Stderr, "snap: "+fmt.Sprintf(format, arguments...))
	}
	options.Warn = func(format string, arguments ...any) {
		options.Say(format, arguments...)
		messages.Say("snap: " + fmt.Sprintf(format, arguments...))
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
		syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT)
	options.Signals = signals
	if err := complete(&options.Options); err != nil {
		options.Warn("%v", err)
		return keeper.ExitUntouched
	}
	if err := options.open(); err != nil {
		options.Warn("cannot keep snapshots: %v", err)
		return keeper.ExitUntouched
	}
	runs, err := keeper.New(engine.Engine{}, options.Options)
	if err != nil {
		options.Warn("cannot use --dir: %v", err)
		return keeper.ExitUntouched
	}
	if runs.Ended() {
		return 0
	}
	if options.key != "" {
		if err := runs.Adopt(options.base, options.adopt, lockLimit); err != nil {
			options.Warn("cannot take over the snapshots of an earlier version: %v", err)
			return keeper.ExitUntouched
		}
	}
	if err := try(options.Program); err != nil {
		if runs.HasSnapshot() {
			options.Warn("the engine cannot run here, and the program has a snapshot: start it on another node: %v", err)
			return keeper.ExitUntouched
		}
		options.Warn("the engine cannot run here: the program runs plainly, without snapshots: %v", err)
		return runPlainly(options.Program.Command)
	}
	return runs.Run(context.Background())
}

// complete finds out what the command line does not say.
func complete(options *keeper.Options) error {
	program := &options.Program
	var err error
	if program.Folder, err = os.Getwd(); err != nil {
		return err
	}
	if program.Hostname, err = os.Hostname(); err != nil {
		return err
	}
	program.Environment = os.Environ()
	program.Memory = availableMemory()
	if len(program.Volumes) == 0 {
		if program.Volumes, err = mountedVolumes(); err != nil {
			return err
		}
	}
	slices.Sort(program.Volumes)
	program.Volumes = slices.Compact(program.Volumes)
	return nil
}

// try runs a program that ends at once: a cluster may forbid what the engine needs.
func try(program keeper.Program) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), tryLimit, errors.New("no answer in time"))
	defer cancel()
	itself, err := os.Executable()
	if err != nil {
		return err
	}
	program.Command = []string{itself, nothing}
	box, err := engine.Engine{}.Start(ctx, program)
	if err != nil {
		return err
	}
	defer box.Kill()
	select {
	case <-box.Done():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	code, err := box.ExitCode()
	if err == nil && code != 0 {
		err = fmt.Errorf("a program that ends with 0 ended with %d", code)
	}
	return err
}

// runPlainly becomes the program.
func runPlainly(command []string) int {
	path, err := exec.LookPath(command[0])
	if err == nil {
		engine.RestoreUmask()
		err = syscall.Exec(path, command, os.Environ())
	}
	fmt.Fprintf(os.Stderr, "snap: cannot run %s: %v\n", command[0], err)
	return 127
}

func install(arguments []string) int {
	if len(arguments) != 1 {
		fmt.Fprint(os.Stderr, usage)
		return keeper.ExitUsage
	}
	if err := copyItself(filepath.Join(arguments[0], "snap")); err != nil {
		fmt.Fprintf(os.Stderr, "snap install: %v\n", err)
		return 1
	}
	return 0
}

func copyItself(path string) error {
	source, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	defer target.Close()
	if _, err := io.Copy(target, source); err != nil {
		return err
	}
	if err := target.Chmod(0o755); err != nil {
		return err
	}
	if err := target.Close(); err != nil {
		return err
	}
	return os.Rename(target.Name(), path)
}
