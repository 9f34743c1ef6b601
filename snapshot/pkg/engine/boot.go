package engine

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/cpuid"
	"gvisor.dev/gvisor/pkg/fd"
	"gvisor.dev/gvisor/pkg/log"
	"gvisor.dev/gvisor/pkg/metric"
	"gvisor.dev/gvisor/pkg/ring0"
	"gvisor.dev/gvisor/pkg/sentry/hostmm"
	"gvisor.dev/gvisor/runsc/boot"
	"gvisor.dev/gvisor/runsc/config"
	"gvisor.dev/gvisor/runsc/flag"
)

// BootCommand is the argument with which the binary starts itself again as the kernel of the program.
const BootCommand = "boot-engine"

// The descriptors that the kernel inherits. The sockets of the file servers follow.
const (
	bootFD = iota + 3
	controlFD
	statusFD
	stdinFD
	stdoutFD
	stderrFD
	firstServerFD
)

const sandboxID = "snapshot"

// bootArguments is what the parent writes into bootFD.
type bootArguments struct {
	Spec        specs.Spec
	Mounts      []boot.GoferMountConf
	TotalMemory uint64
}

// Boot runs gVisor's kernel in this process until the program ends; it writes the wait status of the program to
// statusFD. It makes no namespace, and changes neither root nor capabilities: the pod is the sandbox.
func Boot() error {
	// A file that grows over the limit of the process is an error of that write, not the end of the kernel.
	signal.Ignore(unix.SIGXFSZ)
	log.SetTarget(&log.GoogleEmitter{Writer: &log.Writer{Next: os.Stderr}})
	log.SetLevel(log.Warning)
	var arguments bootArguments
	source := os.NewFile(bootFD, "boot arguments")
	if err := json.NewDecoder(source).Decode(&arguments); err != nil {
		return fmt.Errorf("read the arguments of the engine: %w", err)
	}
	source.Close()
	settings, err := kernelConfig()
	if err != nil {
		return err
	}
	cpuid.Initialize()
	ring0.InitDefault()
	servers := make([]int, len(arguments.Mounts))
	for i := range servers {
		servers[i] = firstServerFD + i
	}
	loader, err := boot.New(boot.Args{
		ID:               sandboxID,
		Spec:             &arguments.Spec,
		Conf:             settings,
		ControllerFD:     controlFD,
		Device:           fd.New(-1),
		GoferFDs:         servers,
		DevGoferFD:       -1,
		StdioFDs:         []int{stdinFD, stdoutFD, stderrFD},
		ExecFD:           -1,
		GoferMountConfs:  arguments.Mounts,
		TotalMem:         arguments.TotalMemory,
		TotalHostMem:     arguments.TotalMemory,
		PodInitConfigFD:  -1,
		HostTHP:          hugePages(),
		RootfsUpperTarFD: -1,
	})
	if err != nil {
		return fmt.Errorf("start the kernel: %w", err)
	}
	metric.Initialize()
	status := os.NewFile(statusFD, "status")
	if _, err := status.Write([]byte{ready}); err != nil {
		return err
	}
	loader.WaitForStartSignal()
	if err := loader.Run(); err != nil {
		return err
	}
	return binary.Write(status, binary.LittleEndian, uint32(loader.WaitExit()))
}

// kernelConfig is what runsc's flags would say.
func kernelConfig() (*config.Config, error) {
	flags := flag.NewFlagSet("engine", flag.ContinueOnError)
	config.RegisterFlags(flags)
	if err := flags.Parse(strings.Fields("--rootless --ignore-cgroups --network=none --directfs=false" +
		" --overlay2=root:memory --platform=systrap --host-settings=ignore --restore-spec-validation=ignore")); err != nil {
		return nil, err
	}
	settings, err := config.NewFromFlags(flags)
	if err != nil {
		return nil, err
	}
	// The container's own filter holds; a second one would cost time in each system call of the kernel.
	settings.DisableSeccomp = true
	return settings, nil
}

func hugePages() boot.HostTHP {
	shmem, err := hostmm.ReadTransparentHugepageEnum("shmem_enabled")
	if err != nil {
		return boot.HostTHP{}
	}
	defrag, err := hostmm.ReadTransparentHugepageEnum("defrag")
	if err != nil {
		return boot.HostTHP{}
	}
	return boot.HostTHP{ShmemEnabled: shmem, Defrag: defrag}
}
