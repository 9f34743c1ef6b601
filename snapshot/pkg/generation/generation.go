// Package generation keeps the snapshots of one program in a folder: each is a folder with files and a manifest, written
// under another name first. A generation counts when its manifest and all that it names are whole.
package generation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	manifestName = "manifest.json"
	prefix       = "gen-"
	unfinished   = ".tmp"
	// kept is how many generations stay: the newest, and the one before in case the newest cannot be restored.
	kept = 2
)

// Manifest says what a generation is, and what has to be as it was for the program to go on from it.
type Manifest struct {
	// Moment is when the program was paused.
	Moment time.Time `json:"moment"`
	// Owner, Image and Command identify the program; empty ones match all.
	Owner   string   `json:"owner,omitempty"`
	Image   string   `json:"image,omitempty"`
	Command []string `json:"command"`
	// Engine is the version that can read the state.
	Engine string `json:"engine"`
	// Features are what the program may have found its CPU to have.
	Features []string `json:"features"`
	// Volumes are the folders whose files are not in the snapshot.
	Volumes []string `json:"volumes"`
	// Files has the SHA-256 of each file of the generation, by name.
	Files map[string]string `json:"files"`
	// Written are the files of the volumes that the program has written, as they were at Moment.
	Written []Mark `json:"written"`
}

// Host is what a generation is to be restored on.
type Host struct {
	Owner    string
	Image    string
	Command  []string
	Engine   string
	Features []string
}

// ErrFeatures says that another node may have a CPU that can continue the program.
var ErrFeatures = errors.New("the CPU of this node lacks")

// Unfit says why the program cannot go on from the generation on this host; nil when it can.
func (m *Manifest) Unfit(host Host) error {
	if m.Owner != "" && host.Owner != "" && m.Owner != host.Owner {
		return fmt.Errorf("it belongs to %s, and this is %s", m.Owner, host.Owner)
	}
	if m.Image != "" && host.Image != "" && m.Image != host.Image {
		return fmt.Errorf("it was made with image %s, and this is %s", m.Image, host.Image)
	}
	if !slices.Equal(m.Command, host.Command) {
		return fmt.Errorf("it is of the command %q", m.Command)
	}
	if m.Engine != host.Engine {
		return fmt.Errorf("it was made by %s, and this is %s", m.Engine, host.Engine)
	}
	var missing []string
	for _, feature := range m.Features {
		if !slices.Contains(host.Features, feature) {
			missing = append(missing, feature)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w %s", ErrFeatures, strings.Join(missing, ", "))
	}
	return nil
}

// Store is the folder with the generations of one program.
type Store struct{ folder string }

// Open makes the folder where it is missing, and removes what was left unfinished.
func Open(folder string) (*Store, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	store := &Store{folder}
	leftovers, err := filepath.Glob(filepath.Join(folder, prefix+"*"+unfinished))
	if err != nil {
		return nil, err
	}
	for _, leftover := range leftovers {
		if err := os.RemoveAll(leftover); err != nil {
			return nil, err
		}
	}
	return store, nil
}

// Numbers lists the generations, newest first, whether they are whole or not.
func (s *Store) Numbers() ([]int, error) {
	entries, err := os.ReadDir(s.folder)
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, entry := range entries {
		digits, found := strings.CutPrefix(entry.Name(), prefix)
		if number, err := strconv.Atoi(digits); found && err == nil {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	slices.Reverse(numbers)
	return numbers, nil
}

// Folder is where the files of a generation are.
func (s *Store) Folder(number int) string {
	return filepath.Join(s.folder, fmt.Sprintf("%s%06d", prefix, number))
}

// Load reads the manifest of a generation and compares its files with it.
func (s *Store) Load(number int) (*Manifest, error) {
	content, err := os.ReadFile(filepath.Join(s.Folder(number), manifestName))
	if err != nil {
		return nil, err
	}
	var manifest Manifest
	if err := json.Unmarshal(content, &manifest); err != nil {
		return nil, fmt.Errorf("%s is torn: %w", manifestName, err)
	}
	if len(manifest.Files) == 0 {
		return nil, fmt.Errorf("%s names no file", manifestName)
	}
	for name, want := range manifest.Files {
		found, err := hashFile(filepath.Join(s.Folder(number), filepath.Base(name)))
		if err != nil {
			return nil, err
		}
		if found != want {
			return nil, fmt.Errorf("%s is torn: its SHA-256 is not that of the manifest", name)
		}
	}
	return &manifest, nil
}

// Draft is a generation that is being written.
type Draft struct {
	store *Store
	// Number is that of the generation.
	Number int
	// Folder takes the files of the generation.
	Folder string
}

// Begin makes the folder of the next generation.
func (s *Store) Begin() (*Draft, error) {
	numbers, err := s.Numbers()
	if err != nil {
		return nil, err
	}
	number := 1
	if len(numbers) > 0 {
		number = numbers[0] + 1
	}
	folder := s.Folder(number) + unfinished
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, err
	}
	return &Draft{s, number, folder}, nil
}

// Discard removes what has been written.
func (d *Draft) Discard() error { return os.RemoveAll(d.Folder) }

// Commit hashes the files of the draft, makes them durable with the manifest, and makes the draft the newest generation.
// It fills in Files of the manifest. Older generations than the kept ones are removed. `stopped` ends it early.
func (d *Draft) Commit(manifest *Manifest, stopped func() error) error {
	entries, err := os.ReadDir(d.Folder)
	if err != nil {
		return err
	}
	manifest.Files = map[string]string{}
	for _, entry := range entries {
		path := filepath.Join(d.Folder, entry.Name())
		sum, err := hashFile(path)
		if err != nil {
			return err
		}
		manifest.Files[entry.Name()] = sum
		if err := syncPath(path); err != nil {
			return err
		}
		if err := stopped(); err != nil {
			return err
		}
	}
	if err := syncWritten(manifest.Written); err != nil {
		return err
	}
	// No newline at the end: a manifest without its last byte is no JSON.
	content, err := json.Marshal(manifest)
	if err != nil {
		return err
	}
	path := filepath.Join(d.Folder, manifestName)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return err
	}
	for _, path := range []string{path, d.Folder} {
		if err := syncPath(path); err != nil {
			return err
		}
	}
	if err := stopped(); err != nil {
		return err
	}
	if err := os.Rename(d.Folder, d.store.Folder(d.Number)); err != nil {
		return err
	}
	if err := syncPath(d.store.folder); err != nil {
		return err
	}
	return d.store.prune()
}

func (s *Store) prune() error {
	numbers, err := s.Numbers()
	if err != nil || len(numbers) <= kept {
		return err
	}
	var problems []error
	for _, number := range numbers[kept:] {
		problems = append(problems, os.RemoveAll(s.Folder(number)))
	}
	return errors.Join(problems...)
}

// Bytes is what a generation has on the disk; 0 when there is none.
func (s *Store) Bytes(number int) int64 {
	var sum int64
	entries, _ := os.ReadDir(s.Folder(number))
	for _, entry := range entries {
		if about, err := entry.Info(); err == nil {
			sum += about.Size()
		}
	}
	return sum
}

// endName holds how the program has ended.
const endName = "ended.json"

// Ended is written when the program has ended with 0: a start after that has nothing to do.
type Ended struct {
	Owner   string    `json:"owner,omitempty"`
	Command []string  `json:"command"`
	Moment  time.Time `json:"moment"`
}

// Finish records the end of the program, and removes its generations.
func (s *Store) Finish(ended Ended) error {
	content, err := json.Marshal(ended)
	if err != nil {
		return err
	}
	draft := filepath.Join(s.folder, endName+unfinished)
	if err := os.WriteFile(draft, content, 0o600); err != nil {
		return err
	}
	if err := syncPath(draft); err != nil {
		return err
	}
	if err := os.Rename(draft, filepath.Join(s.folder, endName)); err != nil {
		return err
	}
	if err := syncPath(s.folder); err != nil {
		return err
	}
	numbers, err := s.Numbers()
	if err != nil {
		return err
	}
	for _, number := range numbers {
		if err := os.RemoveAll(s.Folder(number)); err != nil {
			return err
		}
	}
	return nil
}

// End is how the program of this host has ended before; nil when it has not.
func (s *Store) End(host Host) (*Ended, error) {
	content, err := os.ReadFile(filepath.Join(s.folder, endName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var ended Ended
	if err := json.Unmarshal(content, &ended); err != nil {
		return nil, nil //nolint:nilerr // Torn: the program runs again, and finds its result.
	}
	if ended.Owner != host.Owner || !slices.Equal(ended.Command, host.Command) {
		return nil, nil
	}
	return &ended, nil
}
