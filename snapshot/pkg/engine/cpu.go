package engine

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// tick is the unit of CPU times in /proc: USER_HZ, which is 100 on every architecture that the engine runs on.
const tick = time.Second / 100

// cpuTimes says how much CPU time a process has used by itself, and how much its descendants have, those that have ended
// included. The engine is the process, and the threads of the program are its descendants. Both are 0 where unknown.
func cpuTimes(process int) (own, descendants time.Duration) {
	known := map[int]stat{}
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		if id, err := strconv.Atoi(filepath.Base(folder)); err == nil {
			if found, ok := statOf(id); ok {
				known[id] = found
			}
		}
	}
	for id, found := range known {
		if id == process {
			own = found.own
			descendants += found.reaped
		} else if isDescendant(known, id, process) {
			descendants += found.own + found.reaped
		}
	}
	return own, descendants
}

// isDescendant follows the parents, of which there is a circle at no time, but may seem to be one in what is read of
// processes that come and go.
func isDescendant(known map[int]stat, id, ancestor int) bool {
	for range len(known) {
		found, ok := known[id]
		if !ok {
			return false
		}
		if found.parent == ancestor {
			return true
		}
		id = found.parent
	}
	return false
}

type stat struct {
	parent      int
	own, reaped time.Duration
}

// statOf reads /proc/PID/stat; proc(5) has the numbers of the fields. The name in parentheses may have any character.
func statOf(process int) (stat, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", process))
	if err != nil {
		return stat{}, false
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	const state = 3 // the number of the first field after the name
	if len(fields) <= 17-state {
		return stat{}, false
	}
	value := func(number int) int64 {
		parsed, _ := strconv.ParseInt(string(fields[number-state]), 10, 64)
		return parsed
	}
	return stat{
		parent: int(value(4)),
		own:    time.Duration(value(14)+value(15)) * tick,
		reaped: time.Duration(value(16)+value(17)) * tick,
	}, true
}
