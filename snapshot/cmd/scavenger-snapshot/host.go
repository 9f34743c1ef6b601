package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// notVolumes are filesystems that hold nothing that outlives the pod.
var notVolumes = []string{
	"proc", "sysfs", "cgroup", "cgroup2", "tmpfs", "devtmpfs", "devpts", "mqueue", "overlay", "securityfs", "debugfs",
}

// mountedVolumes lists the folders of this container that are on volumes: all that is mounted for writing. An emptyDir
// goes with the pod, so what the program writes there belongs into the snapshot.
func mountedVolumes() ([]string, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var volumes []string
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if path := volumeOf(lines.Text()); path != "" {
			if about, err := os.Stat(path); err == nil && about.IsDir() {
				volumes = append(volumes, path)
			}
		}
	}
	return volumes, lines.Err()
}

// volumeOf reads a line of mountinfo, as in proc(5); empty for what is no volume.
func volumeOf(line string) string {
	mount, filesystem, found := strings.Cut(line, " - ")
	fields, about := strings.Fields(mount), strings.Fields(filesystem)
	if !found || len(fields) < 6 || len(about) < 1 {
		return ""
	}
	root, path, options := unescape(fields[3]), unescape(fields[4]), strings.Split(fields[5], ",")
	system := path == "/" || slices.ContainsFunc([]string{"/proc", "/sys", "/dev"}, func(folder string) bool {
		return path == folder || strings.HasPrefix(path, folder+"/")
	})
	if system || slices.Contains(notVolumes, about[0]) || slices.Contains(options, "ro") ||
		strings.Contains(root, "/kubernetes.io~empty-dir/") {
		return ""
	}
	return path
}

// unescape undoes what mountinfo does to spaces and the like: \040.
func unescape(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if code, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		out.WriteByte(text[i])
	}
	return out.String()
}

// availableMemory is the limit of this container or the memory of the node, whichever is less; 0 where neither is known.
func availableMemory() uint64 {
	var limits []uint64
	for _, file := range []string{"memory.max", "memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile("/sys/fs/cgroup/" + file)
		if err != nil {
			continue
		}
		if limit, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64); err == nil {
			limits = append(limits, limit)
		}
	}
	var kibibytes uint64
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kibibytes); err == nil {
			limits = append(limits, kibibytes<<10)
		}
	}
	if len(limits) == 0 {
		return 0
	}
	return slices.Min(limits)
}
