package generation

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Key signs what decides how a program goes on: manifests with their marks, and how the program has ended. A user
// who can write to the volume and has no key can remove these, and cannot make any. Without a key nothing is signed.
type Key []byte

// keyBytes is the least length of a key.
const keyBytes = 32

// The kinds of what is signed: a signature of one is of no use for another.
const (
	manifestKind = "manifest"
	endKind      = "ended"
	adoptedKind  = "adopted"
)

var errForeign = errors.New("it was not signed with the key of this job")

// Secret is what the admitter has put into the Secret of a job.
type Secret struct {
	Key Key
	// Adopt: the job had run before it had a key, so what an earlier version has kept of it has no signature.
	Adopt bool
}

// ReadSecret reads the mounted Secret of a job from a folder that has its name. One that does not name this owner is of
// another job, or somebody else has made it: the admitter may create Secrets, and not read which ones there are.
func ReadSecret(folder, owner string) (Secret, error) {
	job, _, _ := strings.Cut(owner, "/")
	found := map[string]string{}
	for _, name := range []string{"key", "owner", "adopt"} {
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Secret{}, fmt.Errorf("read the key of the snapshots: %w", err)
		}
		found[name] = string(content)
	}
	if job == "" || found["owner"] != job || len(found["key"]) < keyBytes {
		return Secret{}, fmt.Errorf("the Secret %s does not belong to this job: delete it, and the next start makes another, or"+
			" create the job under another name", filepath.Base(folder))
	}
	return Secret{Key(found["key"]), found["adopt"] != ""}, nil
}

// seal returns a text of one line with its signature in a second one. Without a key it is the text.
func (k Key) seal(kind string, text []byte) []byte {
	if len(k) == 0 {
		return text
	}
	return fmt.Appendf(bytes.Clone(text), "\n%x", k.sum(kind, text))
}

// open returns the text that was sealed as this kind.
func (k Key) open(kind string, sealed []byte) ([]byte, error) {
	text, signature, signed := bytes.Cut(sealed, []byte("\n"))
	if len(k) == 0 {
		if signed {
			return nil, errors.New("it is signed, and this run has no key")
		}
		return text, nil
	}
	found, err := hex.DecodeString(string(signature))
	if err != nil || !hmac.Equal(found, k.sum(kind, text)) {
		return nil, errForeign
	}
	return text, nil
}

func (k Key) sum(kind string, text []byte) []byte {
	sum := hmac.New(sha256.New, k)
	fmt.Fprintf(sum, "scavenger.dev/snapshot\x00%s\x00", kind)
	sum.Write(text)
	return sum.Sum(nil)
}
