package keeper

import (
	"bytes"
	"os"
	"sync"
	"time"
)

const (
	messagePath    = "/dev/termination-log"
	messagePathEnv = "SCAVENGER_TERMINATION_MESSAGE_PATH"
	// messageLimit is what the kubelet keeps, from the end.
	messageLimit = 4096
)

// Messages is the termination message of the container: lines, and in the last one the newest checkpoint.
type Messages struct {
	mu         sync.Mutex
	lines      []byte
	checkpoint []byte
}

// Say adds a line.
func (m *Messages) Say(line string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lines = append(append(m.lines, line...), '\n')
	m.write()
}

// Report puts a checkpoint into the last line.
func (m *Messages) Report(moment time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.checkpoint = []byte("checkpoint=" + moment.UTC().Format("2006-01-02T15:04:05.000000Z") + "\n")
	m.write()
}

// write is one write, so that nobody reads half of it. Outside a container there is no such file.
func (m *Messages) write() {
	path := os.Getenv(messagePathEnv)
	if path == "" {
		path = messagePath
	}
	if extra := len(m.lines) + len(m.checkpoint) - messageLimit; extra > 0 {
		m.lines = bytes.Clone(m.lines[extra:])
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer file.Close()
	text := append(bytes.Clone(m.lines), m.checkpoint...)
	if _, err := file.WriteAt(text, 0); err == nil {
		_ = file.Truncate(int64(len(text)))
	}
}
