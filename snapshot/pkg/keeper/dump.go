package keeper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"scavenger.dev/snapshot/pkg/generation"
)

var (
	// errStuck is an engine that does not answer: its program is paused for ever.
	errStuck        = errors.New("no progress")
	errProgramEnded = errors.New("the program has ended")
)

// dump is one snapshot that is being taken.
type dump struct {
	done chan error
	mu   sync.Mutex
	// resumed: the program runs again, so what is saved is of the past. final: it stays paused.
	resumed, final bool
}

// keepPaused asks that the program does not go on; false when it has gone on.
func (d *dump) keepPaused() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.resumed {
		return false
	}
	d.final = true
	return true
}

// goOn says whether the program is to go on.
func (d *dump) goOn() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.resumed = !d.final
	return d.resumed
}

func (k *Keeper) begin(ctx context.Context, box Sandbox) *dump {
	d := &dump{done: make(chan error, 1)}
	go func() { d.done <- k.take(ctx, box, d) }()
	return d
}

// take saves the program and commits what it has saved; the program goes on in between.
func (k *Keeper) take(ctx context.Context, box Sandbox, d *dump) error {
	if err := k.room(box); err != nil {
		return err
	}
	draft, err := k.store.Begin()
	if err != nil {
		return err
	}
	manifest, err := k.save(ctx, box, d, draft.Folder)
	saved := time.Now()
	if err == nil {
		err = draft.Commit(manifest, ctx.Err)
	}
	if err != nil {
		return errors.Join(err, draft.Discard())
	}
	k.written = manifest.Written
	k.Report(manifest.Moment)
	if k.Verbose {
		k.Say("saved %.1f MB: the program was stopped for %.3f s, and the snapshot counts after %.3f s",
			float64(k.store.Bytes(draft.Number))/1e6, saved.Sub(manifest.Moment).Seconds(),
			time.Since(manifest.Moment).Seconds())
	}
	if took := time.Since(manifest.Moment); took > k.Grace && !k.warned {
		k.warned = true
		k.Warn("a snapshot takes %.0f s, and the grace period is %.0f s: only the periodic ones count",
			took.Seconds(), k.Grace.Seconds())
	}
	return nil
}

// save writes the state of the program as of the moment that it returns with.
func (k *Keeper) save(ctx context.Context, box Sandbox, d *dump, folder string) (*generation.Manifest, error) {
	watched, cancel := watch(ctx, box, folder, k.Stall)
	defer cancel()
	manifest := &generation.Manifest{
		Moment: time.Now().UTC(), Owner: k.Owner, Image: k.Image, Command: k.Program.Command,
		Engine: k.host.Engine, Features: k.host.Features, Volumes: k.Program.Volumes,
	}
	if err := box.Pause(watched); err != nil {
		return nil, reason(watched, err)
	}
	saved := k.mark(box, manifest)
	if saved == nil {
		saved = reason(watched, box.Save(watched, folder))
	}
	if saved != nil && !errors.Is(saved, errStuck) || d.goOn() {
		if err := box.Resume(watched); err != nil {
			return nil, reason(watched, err)
		}
	}
	if saved != nil {
		return nil, k.explain(saved)
	}
	return manifest, nil
}

// mark records the files that the program has written, now and before earlier snapshots of this run.
func (k *Keeper) mark(box Sandbox, manifest *generation.Manifest) error {
	paths, err := box.WrittenFiles()
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	var all []string
	for _, mark := range k.written {
		paths = append(paths, mark.Path)
	}
	for _, path := range paths {
		if inside, err := filepath.Rel(k.Folder.Path, path); !seen[path] && (err != nil || !filepath.IsLocal(inside)) {
			seen[path] = true
			all = append(all, path)
		}
	}
	manifest.Written, err = generation.MarkFiles(all, k.written)
	return err
}

// room refuses a snapshot that the volume has no room for, before the program is paused.
func (k *Keeper) room(box Sandbox) error {
	var about syscall.Statfs_t
	if err := syscall.Statfs(k.Folder.Path, &about); err != nil {
		return nil //nolint:nilerr // Then the dump finds out.
	}
	wanted, there := box.MemoryBytes(), int64(about.Bavail)*about.Bsize
	if wanted > there {
		return fmt.Errorf("the volume is full: about %d MB are wanted in %s, and %d MB are there",
			wanted>>20, k.Folder.Path, there>>20)
	}
	return nil
}

func (k *Keeper) explain(err error) error {
	var about syscall.Statfs_t
	if syscall.Statfs(k.Folder.Path, &about) == nil && about.Bavail == 0 {
		return fmt.Errorf("the volume of %s is full: %w", k.Folder.Path, err)
	}
	return err
}

// watch returns a context that ends when the files of folder have not grown for `stall`, or the program has ended.
func watch(ctx context.Context, box Sandbox, folder string, stall time.Duration) (context.Context, func()) {
	watched, cancel := context.WithCancelCause(ctx)
	go func() {
		clock := time.NewTicker(stall / 10)
		defer clock.Stop()
		last, at := int64(-1), time.Now()
		for {
			select {
			case <-watched.Done():
				return
			case <-box.Done():
				cancel(errProgramEnded)
				return
			case now := <-clock.C:
				if size := grown(folder); size != last {
					last, at = size, now
				} else if now.Sub(at) > stall {
					cancel(fmt.Errorf("%w for %s", errStuck, stall))
					return
				}
			}
		}
	}()
	return watched, func() { cancel(nil) }
}

func grown(folder string) int64 {
	var sum int64
	entries, _ := os.ReadDir(folder)
	for _, entry := range entries {
		if about, err := entry.Info(); err == nil {
			if system, ok := about.Sys().(*syscall.Stat_t); ok {
				sum += system.Blocks + about.Size()
			}
		}
	}
	return sum
}

// reason prefers why a call was given up to what it returned.
func reason(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}
