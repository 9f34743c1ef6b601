package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"scavenger.dev/snapshot/pkg/keeper"
)

// The binary of the tests is snap, and a program in Go for it, static like snap.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "run", "boot-engine", nothing:
			os.Exit(run(os.Args[1:]))
		case "chains":
			os.Exit(chains(os.Args[2]))
		}
	}
	os.Exit(m.Run())
}

// chains hashes in several goroutines, and appends a line to a file after each piece.
func chains(pieces string) int {
	count, _ := strconv.Atoi(pieces)
	log, err := os.Create("log")
	if err != nil {
		return 1
	}
	var state [4][32]byte
	for piece := range count {
		var group sync.WaitGroup
		for i := range state {
			group.Go(func() {
				for range 20000 {
					state[i] = sha256.Sum256(state[i][:])
				}
			})
		}
		group.Wait()
		fmt.Fprintf(log, "%d %x\n", piece, state[piece%4][:4])
	}
	if err := os.WriteFile("result", fmt.Appendf(nil, "%x\n", state), 0o644); err != nil {
		return 1
	}
	return 3
}

const threadsInC = `
#include <pthread.h>
#include <stdio.h>
static volatile double sum[3];
static void *work(void *at) {
	double x = 1;
	for (long i = 1; i < 150000000; i++) x += 1.0 / (i * x);
	*(double *)at = x;
	return 0;
}
int main(void) {
	pthread_t threads[3];
	for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, work, (void *)&sum[i]);
	for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
	FILE *out = fopen("result", "w");
	fprintf(out, "%.17g %.17g %.17g\n", sum[0], sum[1], sum[2]);
	fclose(out);
	return 3;
}
`

const numpyThreads = `
import threading
import numpy as np
found = [None] * 3
def work(i):
    a = np.random.default_rng(i).random((200, 200))
    for _ in range(250):
        a = a @ a
        a /= np.abs(a).max()
    found[i] = a
threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
[t.start() for t in threads]
[t.join() for t in threads]
open("result", "wb").write(b"".join(a.tobytes() for a in found))
raise SystemExit(3)
`

const parentAndChild = `
import hashlib, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", '''
import hashlib, sys
for line in sys.stdin:
    value = line.strip().encode()
    for _ in range(20000):
        value = hashlib.sha256(value).hexdigest().encode()
    print(value.decode(), flush=True)
'''], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
value = "0"
open("result", "w").close()
for step in range(150):
    child.stdin.write(value + "\n"); child.stdin.flush()
    value = child.stdout.readline().strip()
    with open("result", "a") as out:
        out.write(f"{step} {value}\n")
raise SystemExit(3)
`

const threadsInJava = `
import java.nio.file.*;
import java.security.MessageDigest;
public class Chains {
	public static void main(String[] none) throws Exception {
		byte[][] state = new byte[3][32];
		Thread[] threads = new Thread[3];
		for (int i = 0; i < 3; i++) {
			int at = i;
			threads[i] = new Thread(() -> {
				try {
					MessageDigest sha = MessageDigest.getInstance("SHA-256");
					for (int n = 0; n < 3000000; n++) state[at] = sha.digest(state[at]);
				} catch (Exception e) { throw new RuntimeException(e); }
			});
			threads[i].start();
		}
		for (Thread thread : threads) thread.join();
		Path result = Path.of("result");
		Files.write(result, state[0]);
		for (int i = 1; i < 3; i++) Files.write(result, state[i], StandardOpenOption.APPEND);
		System.exit(3);
	}
}
`

// program is one that ends with 3 and leaves its results in the files of its folder.
type program struct {
	name string
	// long: only with SNAPSHOT_INTERRUPTIONS.
	long    bool
	command func(t *testing.T, tools string) []string
}

var programs = []program{
	{"go", false, func(_ *testing.T, tools string) []string { return []string{tools + "/snap", "chains", "200"} }},
	{"c-threads", false, func(t *testing.T, tools string) []string { return compiled(t, tools) }},
	{"c-static", true, func(t *testing.T, tools string) []string { return compiled(t, tools, "-static") }},
	{"numpy-threads", true, func(t *testing.T, _ string) []string { return inPython(t, numpyThreads) }},
	{"parent-and-child", true, func(t *testing.T, _ string) []string { return inPython(t, parentAndChild) }},
	{"jvm", true, inJava},
	{"gromacs", true, inGromacs},
}

// withTimes are files in which GROMACS writes when it ran.
var withTimes = []string{"md.log", "state.cpt"}

// inGromacs simulates water in two threads, in a way whose results can be compared.
func inGromacs(t *testing.T, tools string) []string {
	t.Helper()
	gmx, err := exec.LookPath("gmx")
	if err != nil {
		t.Skip("no gmx: the package gromacs has it")
	}
	inputs := map[string]string{
		"topol.top": "#include \"amber99sb-ildn.ff/forcefield.itp\"\n#include \"amber99sb-ildn.ff/spce.itp\"\n" +
			"[ system ]\nwater\n[ molecules ]\nSOL 216\n",
		"md.mdp": "dt = 0.002\nnsteps = 600\nnstxout = 20\nnstenergy = 20\nnstcalcenergy = 20\ncutoff-scheme = Verlet\n" +
			"coulombtype = PME\nrcoulomb = 0.9\nrvdw = 0.9\nconstraints = h-bonds\ntcoupl = v-rescale\n" +
			"tc-grps = System\ntau-t = 1\nref-t = 300\nld-seed = 7\n",
	}
	for name, text := range inputs {
		if err := os.WriteFile(filepath.Join(tools, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, words := range [][]string{
		{"solvate", "-cs", "spc216.gro", "-box", "1.86206", "1.86206", "1.86206", "-o", "start.gro"},
		{"grompp", "-f", "md.mdp", "-c", "start.gro", "-p", "topol.top", "-o", "topol.tpr"},
	} {
		prepare := exec.Command(gmx, words...)
		prepare.Dir = tools
		if output, err := prepare.CombinedOutput(); err != nil {
			t.Fatalf("gmx %s: %v: %s", words[0], err, output)
		}
	}
	const run = `"$0" -quiet mdrun -s "$1" -ntmpi 1 -ntomp 2 -pin off -reprod -notunepme >/dev/null 2>&1 && exit 3`
	return []string{"/bin/sh", "-c", run, gmx, filepath.Join(tools, "topol.tpr")}
}

func inJava(t *testing.T, tools string) []string {
	t.Helper()
	source := filepath.Join(tools, "Chains.java")
	if err := os.WriteFile(source, []byte(threadsInJava), 0o644); err != nil {
		t.Fatal(err)
	}
	if output, err := exec.Command("javac", source).CombinedOutput(); err != nil {
		t.Skipf("no Java compiler: %v: %s", err, output)
	}
	return []string{"/usr/bin/java", "-Xmx256m", "-cp", tools, "Chains"}
}

func compiled(t *testing.T, tools string, flags ...string) []string {
	t.Helper()
	target := filepath.Join(tools, "threads")
	flags = append([]string{"-O2", "-pthread", "-x", "c", "-", "-o", target}, flags...)
	compiler := exec.Command("cc", flags...)
	compiler.Stdin = strings.NewReader(threadsInC)
	if output, err := compiler.CombinedOutput(); err != nil {
		t.Skipf("no C compiler: %v: %s", err, output)
	}
	return []string{target}
}

func inPython(t *testing.T, source string) []string {
	t.Helper()
	// Not one of a user's folder: the user of asUser cannot run it.
	const python = "/usr/bin/python3"
	if asUser(exec.Command(python, "--version")).Run() != nil {
		t.Skip("no " + python)
	}
	if strings.Contains(source, "numpy") && asUser(exec.Command(python, "-c", "import numpy")).Run() != nil {
		t.Skip("python3 has no numpy")
	}
	return []string{python, "-c", source}
}

// asUser takes all rights from a command: another user than root has no capabilities.
func asUser(command *exec.Cmd) *exec.Cmd {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		command.SysProcAttr.Credential = &syscall.Credential{Uid: 65532, Gid: 65532}
	}
	return command
}

// folderForAll is a folder that the user of asUser can use, with snap in it.
func folderForAll(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "snapshots")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := copyItself(filepath.Join(folder, "snap")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(keyFolder(folder), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"key": strings.Repeat("k", 32), "owner": "uid"} {
		if err := os.WriteFile(filepath.Join(keyFolder(folder), name), []byte(content), 0o444); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func subfolder(t *testing.T, parent, name string) string {
	t.Helper()
	path := filepath.Join(parent, name)
	if err := os.Mkdir(path, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	return path
}

func codeOf(t *testing.T, err error) int {
	t.Helper()
	var ended *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &ended) && ended.Exited():
		return ended.ExitCode()
	case errors.As(err, &ended):
		return 128 + int(ended.Sys().(syscall.WaitStatus).Signal())
	}
	t.Fatal(err)
	return 0
}

// keyFolder is where the Secret of the job is mounted.
func keyFolder(tools string) string { return tools + "/job-snapshot-key" }

// snapRun is the command that runs a program with snapshots, in a volume that has its folder.
func snapRun(tools, volume string, program []string) *exec.Cmd {
	arguments := []string{
		"run", "--base", volume, "--dir", volume + "/.snapshot/lab_uid", "--key", keyFolder(tools), "--owner", "uid",
		"--image-id", "image", "--volume", volume, "--every", "300ms", "--",
	}
	command := asUser(exec.Command(tools+"/snap", append(arguments, program...)...))
	command.Dir = volume
	return command
}

func interruptions() int {
	if count, err := strconv.Atoi(os.Getenv("SNAPSHOT_INTERRUPTIONS")); err == nil {
		return count
	}
	return 2
}

func TestInterruptedProgramsLeaveTheSameFiles(t *testing.T) {
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			if p.long && interruptions() == 2 {
				t.Skip("one of the long ones: verify.sh long")
			}
			tools := folderForAll(t)
			command := p.command(t, tools)
			plain := subfolder(t, tools, "plain")
			alone := asUser(exec.Command(command[0], command[1:]...))
			alone.Dir = plain
			began := time.Now()
			if code := codeOf(t, alone.Run()); code != 3 {
				t.Fatalf("without interruptions it ended with %d", code)
			}
			length := time.Since(began)
			for done := 0; done < interruptions(); {
				done += interrupted(t, tools, command, plain, length, interruptions()-done)
			}
		})
	}
}

// interrupted runs a program to its end, interrupts it up to `most` times on the way and returns how often.
func interrupted(t *testing.T, tools string, command []string, plain string, length time.Duration, most int) int {
	t.Helper()
	volume, err := os.MkdirTemp(tools, "volume")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(volume, 0o777); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	count := 0
	for start := 0; ; start++ {
		running := snapRun(tools, volume, command)
		var errors bytes.Buffer
		running.Stderr = &errors
		running.WaitDelay = time.Minute
		if err := running.Start(); err != nil {
			t.Fatal(err)
		}
		signal := []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}[(start+most)%2]
		var timer *time.Timer
		after := 700*time.Millisecond + time.Duration(rand.Int64N(int64(max(length, time.Second)/2)))
		if count < most {
			timer = time.AfterFunc(after, func() { _ = running.Process.Signal(signal) })
		}
		code := codeOf(t, running.Wait())
		fmt.Fprintf(&log, "start %d: %s after %.2f s, ended with %d\n%s", start, signal, after.Seconds(), code, &errors)
		if bytes.Contains(errors.Bytes(), []byte("snapshot failed")) {
			t.Fatalf("a snapshot failed:\n%s", &log)
		}
		stopped := timer != nil && !timer.Stop()
		switch {
		case code == 3:
			compare(t, plain, volume, &log)
			return count
		case stopped && (code == keeper.ExitSaved || signal == syscall.SIGKILL && code == 128+int(syscall.SIGKILL)):
			count++
		default:
			t.Fatalf("it ended with %d:\n%s", code, &log)
		}
	}
}

func compare(t *testing.T, plain, volume string, log *bytes.Buffer) {
	t.Helper()
	files, err := os.ReadDir(plain)
	if err != nil || len(files) == 0 {
		t.Fatalf("no files to compare: %v", err)
	}
	for _, file := range files {
		if slices.Contains(withTimes, file.Name()) {
			continue
		}
		want, err := os.ReadFile(filepath.Join(plain, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		found, err := os.ReadFile(filepath.Join(volume, file.Name()))
		if err != nil || !bytes.Equal(found, want) {
			t.Errorf("%s: %d bytes and not the %d wanted (%v)\n%s", file.Name(), len(found), len(want), err, log)
		}
	}
}

func TestAFullVolumeLosesNothing(t *testing.T) {
	tools := folderForAll(t)
	volume := subfolder(t, tools, "volume")
	if err := syscall.Mount("tmpfs", volume, "tmpfs", 0, "size=1m,mode=1777"); err != nil {
		t.Skipf("no small volume: %v", err)
	}
	defer syscall.Unmount(volume, syscall.MNT_DETACH)
	running := snapRun(tools, volume, []string{tools + "/snap", "chains", "400"})
	var said bytes.Buffer
	running.Stderr = &said
	if code := codeOf(t, running.Run()); code != 3 {
		t.Errorf("the program ended with %d", code)
	}
	if !strings.Contains(said.String(), "the volume is full") {
		t.Errorf("said %s", &said)
	}
	if lines, _ := os.ReadFile(volume + "/log"); bytes.Count(lines, []byte("\n")) != 400 {
		t.Errorf("the program wrote %d lines", bytes.Count(lines, []byte("\n")))
	}
}

func TestTheCodeOfTheProgramStands(t *testing.T) {
	tools := folderForAll(t)
	for _, c := range []struct {
		script string
		want   int
	}{{"exit 0", 0}, {"exit 9", 9}, {"kill -ABRT $$", 128 + int(syscall.SIGABRT)}} {
		volume, err := os.MkdirTemp(tools, "volume")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(volume, 0o777); err != nil {
			t.Fatal(err)
		}
		running := snapRun(tools, volume, []string{"/bin/sh", "-c", c.script})
		var said bytes.Buffer
		running.Stderr = &said
		if code := codeOf(t, running.Run()); code != c.want {
			t.Errorf("%s ended with %d: %s", c.script, code, &said)
		}
	}
}

func TestTheProgramDoesNotFindTheKey(t *testing.T) {
	tools := folderForAll(t)
	volume := subfolder(t, tools, "volume")
	running := snapRun(tools, volume, []string{"/bin/sh", "-c", "ls -A \"$0\" > found; exit 3", keyFolder(tools)})
	var said bytes.Buffer
	running.Stderr = &said
	if code := codeOf(t, running.Run()); code != 3 {
		t.Fatalf("it ended with %d: %s", code, &said)
	}
	if found, err := os.ReadFile(volume + "/found"); err != nil || len(found) > 0 {
		t.Errorf("the program finds %q, %v", found, err)
	}
}

func TestTheSecretOfAnotherJobStartsNothing(t *testing.T) {
	tools := folderForAll(t)
	volume := subfolder(t, tools, "volume")
	if err := os.WriteFile(filepath.Join(keyFolder(tools), "owner"), []byte("another"), 0o444); err != nil {
		t.Fatal(err)
	}
	running := snapRun(tools, volume, []string{"/bin/sh", "-c", "touch ran"})
	var said bytes.Buffer
	running.Stderr = &said
	if code := codeOf(t, running.Run()); code != keeper.ExitUntouched {
		t.Errorf("it ended with %d", code)
	}
	const words = "snap: cannot keep snapshots: the Secret job-snapshot-key does not belong to this job: delete it"
	if !strings.Contains(said.String(), words) {
		t.Errorf("said %s", &said)
	}
	if _, err := os.Stat(volume + "/ran"); err == nil {
		t.Error("the program has run")
	}
}

func TestJobsOfTwoUsersShareAVolume(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root to run programs of two users")
	}
	tools := folderForAll(t)
	volume := subfolder(t, tools, "volume")
	for _, user := range []uint32{65532, 65533} {
		own := fmt.Sprintf("%s/.snapshot/lab_%d", volume, user)
		running := snapRun(tools, volume, []string{"/bin/sh", "-c", "exit 0"})
		running.Args[slices.Index(running.Args, "--dir")+1] = own
		running.SysProcAttr.Credential = &syscall.Credential{Uid: user, Gid: user}
		var said bytes.Buffer
		running.Stderr = &said
		if code := codeOf(t, running.Run()); code != 0 {
			t.Fatalf("user %d: it ended with %d: %s", user, code, &said)
		}
		if about, err := os.Stat(own); err != nil || about.Mode().Perm() != 0o700 {
			t.Errorf("user %d: %v, %v", user, about, err)
		}
	}
}

func TestASnapshotOfAnEarlierVersionGoesOn(t *testing.T) {
	tools := folderForAll(t)
	volume := subfolder(t, tools, "volume")
	earlier := volume + "/.snapshot/job"
	program := []string{"/bin/sh", "-c", "echo began >> told; sleep 4; exit 3"}
	arguments := []string{
		"run", "--dir", earlier, "--owner", "uid", "--image-id", "image", "--volume", volume, "--every", "300ms", "--",
	}
	before := asUser(exec.Command(tools+"/snap", append(arguments, program...)...))
	before.Dir = volume
	if err := before.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if found, _ := filepath.Glob(earlier + "/gen-*1"); len(found) > 0 {
			break
		}
	}
	_ = before.Process.Signal(syscall.SIGTERM)
	if code := codeOf(t, before.Wait()); code != keeper.ExitSaved {
		t.Fatalf("it ended with %d", code)
	}
	if err := os.WriteFile(filepath.Join(keyFolder(tools), "adopt"), []byte("true"), 0o444); err != nil {
		t.Fatal(err)
	}
	now := snapRun(tools, volume, program)
	now.Args = slices.Insert(now.Args, 2, "--adopt", earlier)
	var said bytes.Buffer
	now.Stderr = &said
	if code := codeOf(t, now.Run()); code != 3 {
		t.Errorf("it ended with %d: %s", code, &said)
	}
	for _, words := range []string{"took over " + earlier, "continued from snapshot"} {
		if !strings.Contains(said.String(), words) {
			t.Errorf("said %s, and not %q", &said, words)
		}
	}
	if told, _ := os.ReadFile(volume + "/told"); string(told) != "began\n" {
		t.Errorf("the program has told %q", told)
	}
	if _, err := os.Stat(earlier); err == nil {
		t.Error("the earlier folder is still there")
	}
}
