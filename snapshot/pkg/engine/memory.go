package engine

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// residentMemory is the memory of a process and of what it has made for others (its memfd), in bytes; 0 where unknown.
func residentMemory(process int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", process))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		if value, found := bytes.CutPrefix(line, []byte("VmRSS:")); found {
			kibibytes, _ := strconv.ParseInt(string(bytes.Fields(value)[0]), 10, 64)
			return kibibytes << 10
		}
	}
	return 0
}
