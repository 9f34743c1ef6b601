package main

import "testing"

func TestVolumesAreWhatIsMountedForWriting(t *testing.T) {
	for line, want := range map[string]string{
		"1 0 0:50 / / rw,relatime - overlay overlay rw":                                              "",
		"2 1 0:51 / /proc rw,nosuid - proc proc rw":                                                  "",
		"3 1 8:1 /pods/1/volumes/kubernetes.io~csi/pvc-1/mount /data rw,relatime - ext4 /dev/sda rw": "/data",
		"4 1 0:60 / /shared\\040data rw,relatime shared:7 - nfs4 server:/x rw":                       "/shared data",
		"5 1 8:1 /pods/1/volumes/kubernetes.io~empty-dir/scratch /scratch rw - ext4 /dev/sda rw":     "",
		"6 1 8:1 /pods/1/volumes/kubernetes.io~configmap/c /config ro - ext4 /dev/sda rw":            "",
		"7 1 0:61 / /dev/shm rw - tmpfs shm rw":                                                      "",
		"torn":                                                                                       "",
	} {
		if found := volumeOf(line); found != want {
			t.Errorf("%s: %q, want %q", line, found, want)
		}
	}
}

func TestTheCommandLineSaysWhatIsWrong(t *testing.T) {
	for want, arguments := range map[string][]string{
		"--dir: name one folder, on a volume that outlives the pod": {"--every", "1m", "--", "true"},
		"--every: use 100ms or more, such as 10m":                   {"--dir", "/d", "--every", "1ms", "--", "true"},
		"--exit-code: use 1 to 255, as in checkpointExitCode":       {"--dir", "/d", "--exit-code", "0", "--", "true"},
		"name the program after --":                                 {"--dir", "/d"},
	} {
		if _, err := parse(arguments); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", arguments, err, want)
		}
	}
}
