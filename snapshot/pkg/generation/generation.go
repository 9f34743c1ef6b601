// Package generation keeps the snapshots of one program in a folder: each is a folder with files and a manifest, written
// under another name first. A generation counts when its manifest and all that it names are whole, and signed with the
// key of the program where it has one.
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
	// mostDigits is how long the number of a generation may be.
	mostDigits = 12
)

// Manifest says what a generation is, and what has to be as it was for the program to go on from it.
type Manifest struct {
	// Number is that of the generation. Versions before signatures did not write it.
	Number int `json:"number,omitempty"`
	// Moment is when the program was paused.
	Moment time.Time `json:"moment"`
	// Owner, Image and Command identify the program.
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
	// Owner and Image are mandatory where there is a key. Where one is empty, those of manifests are not compared.
	Owner    string
	Image    string
	Command  []string
	Engine   string
	Features []string
	// Volumes are the folders of this container that are on volumes.
	Volumes []string
}

// ErrFeatures says that another node may have a CPU that can continue the program.
var ErrFeatures = errors.New("the CPU of this node lacks")

// Unfit says why the program cannot go on from the generation on this host; nil when it can.
func (m *Manifest) Unfit(host Host) error {
	if host.Owner != "" && m.Owner != host.Owner {
		return fmt.Errorf("it belongs to %s, and this is %s", named(m.Owner), host.Owner)
	}
	if host.Image != "" && m.Image != host.Image {
		return fmt.Errorf("it was made with image %s, and this is %s", named(m.Image), host.Image)
	}
	if !slices.Equal(m.Command, host.Command) {
		return fmt.Errorf("it is of the command %q", m.Command)
	}
	if m.Engine != host.Engine {
		return fmt.Errorf("it was made by %s, and this is %s", m.Engine, host.Engine)
	}
	for _, volume := range m.Volumes {
		if !slices.Contains(host.Volumes, volume) {
			return fmt.Errorf("it was made with a volume in %s, and there is none", volume)
		}
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

func named(text string) string {
	if text == "" {
		return "nobody"
	}
	return text
}

// Store is the folder with the generations of one program.
type Store struct {
	folder *Folder
	key    Key
	owner  string
}

// Open removes what was left unfinished in a folder. `owner` is that of the generations in it; others stay there.
func Open(folder *Folder, key Key, owner string) (*Store, error) {
	store := &Store{folder, key, owner}
	names, err := store.names()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if strings.HasPrefix(name, prefix) && strings.HasSuffix(name, unfinished) {
			if err := folder.root.RemoveAll(name); err != nil {
				return nil, err
			}
		}
	}
	return store, nil
}

func (s *Store) names() ([]string, error) {
	folder, err := s.folder.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	return folder.Readdirnames(-1)
}

// Numbers lists the generations, newest first, whether they are whole or not.
func (s *Store) Numbers() ([]int, error) {
	names, err := s.names()
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, name := range names {
		digits, found := strings.CutPrefix(name, prefix)
		if number, err := strconv.Atoi(digits); found && err == nil && len(digits) <= mostDigits {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	slices.Reverse(numbers)
	return numbers, nil
}

// own lists the generations that this program has made, newest first. What a torn manifest was is not known: it is in the
// folder of this program, so it counts as its own. One of somebody else stays where it is, and so does one that cannot be
// read.
func (s *Store) own() ([]int, error) {
	numbers, err := s.Numbers()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(numbers, func(number int) bool {
		content, err := s.folder.root.ReadFile(filepath.Join(nameOf(number), manifestName))
		if err != nil {
			return !errors.Is(err, fs.ErrNotExist)
		}
		var manifest Manifest
		text, _, _ := strings.Cut(string(content), "\n")
		return json.Unmarshal([]byte(text), &manifest) == nil && manifest.Owner != s.owner
	}), nil
}

// usable lists the generations that this program has made and that are whole but for their files, newest first.
func (s *Store) usable() ([]int, error) {
	numbers, err := s.Numbers()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(numbers, func(number int) bool {
		root, err := s.folder.root.OpenRoot(nameOf(number))
		if err != nil {
			return true
		}
		defer root.Close()
		manifest, err := s.manifest(root, number)
		return err != nil || manifest.Owner != s.owner
	}), nil
}

// Usable says whether there is a generation that this program has made, and that is whole but for its files.
func (s *Store) Usable() bool {
	numbers, err := s.usable()
	return err == nil && len(numbers) > 0
}

// Folder is where the files of a generation are, for people.
func (s *Store) Folder(number int) string { return filepath.Join(s.folder.Path, nameOf(number)) }

func nameOf(number int) string { return fmt.Sprintf("%s%06d", prefix, number) }

// Loaded is a generation that is whole. Its files are the ones that were looked at, whatever happens to the folder above.
type Loaded struct {
	*Manifest
	// Folder is a path of its files until Close.
	Folder string
	opened *os.File
}

// Close gives the files back.
func (l *Loaded) Close() { l.opened.Close() }

// Load reads the manifest of a generation and compares its files with it.
func (s *Store) Load(number int) (*Loaded, error) {
	root, err := s.folder.root.OpenRoot(nameOf(number))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	manifest, err := s.manifest(root, number)
	if err != nil {
		return nil, err
	}
	for name, want := range manifest.Files {
		found, err := hashFile(root, filepath.Base(name))
		if err != nil {
			return nil, err
		}
		if found != want {
			return nil, fmt.Errorf("%s is torn: its SHA-256 is not that of the manifest", name)
		}
	}
	opened, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	return &Loaded{manifest, descriptorPath(int(opened.Fd())), opened}, nil
}

// manifest reads that of a generation, of which `root` is the folder.
func (s *Store) manifest(root *os.Root, number int) (*Manifest, error) {
	content, err := root.ReadFile(manifestName)
	if err != nil {
		return nil, err
	}
	text, err := s.key.open(manifestKind, content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", manifestName, err)
	}
	var manifest Manifest
	if err := json.Unmarshal(text, &manifest); err != nil {
		return nil, fmt.Errorf("%s is torn: %w", manifestName, err)
	}
	if len(manifest.Files) == 0 {
		return nil, fmt.Errorf("%s names no file", manifestName)
	}
	if len(s.key) > 0 && manifest.Number != number {
		return nil, fmt.Errorf("it was snapshot %d", manifest.Number)
	}
	return &manifest, nil
}

// Draft is a generation that is being written.
type Draft struct {
	store *Store
	root  *os.Root
	// Number is that of the generation.
	Number int
	// Folder takes the files of the generation.
	Folder string
	opened *os.File
}

// Begin makes the folder of the next generation.
func (s *Store) Begin() (*Draft, error) {
	numbers, err := s.usable()
	if err != nil {
		return nil, err
	}
	number := 1
	if len(numbers) > 0 {
		number = numbers[0] + 1
	}
	for s.there(nameOf(number)) { // torn, or of somebody else
		number++
	}
	return s.begin(number)
}

func (s *Store) there(name string) bool {
	_, err := s.folder.root.Lstat(name)
	return err == nil
}

func (s *Store) begin(number int) (*Draft, error) {
	name := nameOf(number) + unfinished
	if err := s.folder.root.Mkdir(name, ownMode); err != nil {
		return nil, err
	}
	root, err := s.folder.root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	opened, err := root.Open(".")
	if err != nil {
		root.Close()
		return nil, err
	}
	return &Draft{s, root, number, descriptorPath(int(opened.Fd())), opened}, nil
}

func (d *Draft) name() string { return nameOf(d.Number) + unfinished }

func (d *Draft) close() {
	d.opened.Close()
	d.root.Close()
}

// Discard removes what has been written.
func (d *Draft) Discard() error {
	d.close()
	return d.store.folder.root.RemoveAll(d.name())
}

// Commit hashes the files of the draft, makes them durable with the manifest, and makes the draft the newest generation.
// It fills in Number, Owner and Files of the manifest. Older generations than the kept ones are removed. `stopped` ends it
// early.
func (d *Draft) Commit(manifest *Manifest, stopped func() error) error {
	names, err := d.opened.Readdirnames(-1)
	if err != nil {
		return err
	}
	manifest.Number, manifest.Owner, manifest.Files = d.Number, d.store.owner, map[string]string{}
	for _, name := range names {
		sum, err := hashFile(d.root, name)
		if err != nil {
			return err
		}
		manifest.Files[name] = sum
		if err := syncFile(d.root, name); err != nil {
			return err
		}
		if err := stopped(); err != nil {
			return err
		}
	}
	if err := syncWritten(manifest.Written); err != nil {
		return err
	}
	if err := d.store.write(d.root, manifestName, manifestKind, manifest); err != nil {
		return err
	}
	if err := stopped(); err != nil {
		return err
	}
	if err := d.store.folder.root.Rename(d.name(), nameOf(d.Number)); err != nil {
		return err
	}
	d.close()
	if err := syncFile(d.store.folder.root, "."); err != nil {
		return err
	}
	return d.store.prune()
}

// write makes a file of a value, signed as this kind, and makes it durable.
func (s *Store) write(root *os.Root, name, kind string, value any) error {
	// No newline at the end: a file without its last byte is no JSON, or has a wrong signature.
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	draft := name + unfinished
	if err := root.WriteFile(draft, s.key.seal(kind, text), 0o600); err != nil {
		return err
	}
	if err := syncFile(root, draft); err != nil {
		return err
	}
	if err := root.Rename(draft, name); err != nil {
		return err
	}
	return syncFile(root, ".")
}

// prune keeps the newest generations that count. What only says that it is newer is removed with the older ones.
func (s *Store) prune() error {
	usable, err := s.usable()
	if err != nil {
		return err
	}
	numbers, err := s.own()
	if err != nil {
		return err
	}
	return s.remove(slices.DeleteFunc(numbers, func(number int) bool {
		return slices.Contains(usable[:min(kept, len(usable))], number)
	}))
}

func (s *Store) remove(numbers []int) error {
	var problems []error
	for _, number := range numbers {
		problems = append(problems, s.folder.root.RemoveAll(nameOf(number)))
	}
	return errors.Join(problems...)
}

// Bytes is what a generation has on the disk; 0 when there is none.
func (s *Store) Bytes(number int) int64 {
	var sum int64
	entries, _ := fs.ReadDir(s.folder.root.FS(), nameOf(number))
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
	if err := s.write(s.folder.root, endName, endKind, ended); err != nil {
		return err
	}
	numbers, err := s.own()
	if err != nil {
		return err
	}
	return s.remove(numbers)
}

// End is how the program of this host has ended before; nil when it has not.
func (s *Store) End(host Host) (*Ended, error) {
	content, err := s.folder.root.ReadFile(endName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text, err := s.key.open(endKind, content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", endName, err)
	}
	var ended Ended
	if err := json.Unmarshal(text, &ended); err != nil {
		return nil, nil //nolint:nilerr // Torn: the program runs again, and finds its result.
	}
	if ended.Owner != host.Owner || !slices.Equal(ended.Command, host.Command) {
		return nil, nil
	}
	return &ended, nil
}
