package engine

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

func TestCPUTimesOfDescendantsThatRunAndThatHaveEnded(t *testing.T) {
	// A child that starts another one, as the kernel's processes do.
	busy := exec.Command("sh", "-c", "sh -c 'while :; do :; done'; true")
	busy.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = syscall.Kill(-busy.Process.Pid, syscall.SIGKILL)
		_ = busy.Wait()
	}()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, descendants := cpuTimes(os.Getpid()); descendants >= 200*time.Millisecond {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the time of a running descendant is not seen")
		}
	}
	before, _ := statOf(os.Getpid())
	if err := exec.Command("sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done").Run(); err != nil {
		t.Fatal(err)
	}
	if after, _ := statOf(os.Getpid()); after.reaped < before.reaped+2*tick {
		t.Errorf("of a child that has ended: %s after %s", after.reaped, before.reaped)
	}
	if own, descendants := cpuTimes(-1); own != 0 || descendants != 0 {
		t.Errorf("of no process: %s, %s", own, descendants)
	}
}
