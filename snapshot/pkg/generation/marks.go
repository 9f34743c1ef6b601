package generation

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// endBytes is how much before the mark of a file is compared.
const endBytes = 64 << 10

// Mark is how far a file was written when the program was paused.
type Mark struct {
	Path     string    `json:"path"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
	// End is the SHA-256 of the last bytes before Size.
	End string `json:"end"`
}

// MarkFiles marks the files as they are now. Files that are gone are left out; `before` saves reading unchanged ones.
func MarkFiles(paths []string, before []Mark) ([]Mark, error) {
	known := map[string]Mark{}
	for _, mark := range before {
		known[mark.Path] = mark
	}
	var marks []Mark
	for _, path := range paths {
		about, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !about.Mode().IsRegular() {
			continue
		}
		mark := Mark{Path: path, Size: about.Size(), Modified: about.ModTime().UTC()}
		if old, found := known[path]; found && old.Size == mark.Size && old.Modified.Equal(mark.Modified) {
			mark.End = old.End
		} else if mark.End, err = hashEndOf(path, mark.Size); err != nil {
			return nil, err
		}
		marks = append(marks, mark)
	}
	return marks, nil
}

// open opens the file, which is in one of these volumes, and on whose way there is no symbolic link.
func (m Mark) open(volumes []string, flags int) (*os.File, fs.FileInfo, error) {
	file, err := openBeneath(volumes, m.Path, flags)
	if err != nil {
		return nil, nil, err
	}
	about, err := file.Stat()
	if err == nil && (!about.Mode().IsRegular() || m.Size < 0) {
		err = fmt.Errorf("%s is no regular file", m.Path)
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, about, nil
}

// Unchanged says why a file of these volumes cannot be taken back to its mark; nil when it can.
func (m Mark) Unchanged(volumes []string) error {
	file, about, err := m.open(volumes, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer file.Close()
	if about.Size() < m.Size {
		return fmt.Errorf("%s has %d bytes, and had %d", m.Path, about.Size(), m.Size)
	}
	end, err := hashEnd(file, m.Size)
	if err != nil {
		return err
	}
	if end != m.End {
		return fmt.Errorf("%s was changed in place before byte %d", m.Path, m.Size)
	}
	return nil
}

// CutBack takes a file of these volumes back to its mark: what was written since is removed.
func (m Mark) CutBack(volumes []string) error {
	file, about, err := m.open(volumes, os.O_RDONLY)
	if err != nil {
		return err
	}
	file.Close()
	if about.Size() == m.Size {
		return nil
	}
	file, _, err = m.open(volumes, os.O_RDWR)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := file.Truncate(m.Size); err != nil {
		return err
	}
	return os.Chtimes(descriptorPath(int(file.Fd())), time.Time{}, m.Modified)
}

func hashEndOf(path string, size int64) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	return hashEnd(file, size)
}

func hashEnd(file io.ReaderAt, size int64) (string, error) {
	from := max(0, size-endBytes)
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(file, from, size-from)); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func hashFile(root *os.Root, name string) (string, error) {
	file, err := regular(root, name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.CopyBuffer(sum, file, make([]byte, 1<<20)); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func syncFile(root *os.Root, name string) error {
	file, err := root.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	return file.Sync()
}

// syncWritten makes durable what the marks count on. A file that has been removed since needs nothing.
func syncWritten(marks []Mark) error {
	for _, mark := range marks {
		file, err := os.Open(mark.Path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		err = file.Sync()
		file.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
