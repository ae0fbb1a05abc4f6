package netns_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshpilot/meshpilot/internal/base/netns"
)

// helperVar makes the test binary a program of its own, which the tests of sandboxes run and kill.
const helperVar = "NETNS_TEST_HELPER"

func TestMain(m *testing.M) {
	switch mode := os.Getenv(helperVar); mode {
	case "":
	case "other thread":
		os.Exit(runHelperOnOtherThread())
	default:
		os.Exit(runHelper(mode))
	}
	os.Exit(netns.TestMain(leakChecked{m}))
}

// leakChecked are tests after which no goroutine may be left.
type leakChecked struct{ m *testing.M }

// Run runs the tests and ends the process.
func (l leakChecked) Run() int {
	goleak.VerifyTestMain(l.m)
	return 0
}

func runHelper(mode string) int {
	code, err := netns.Run(func() int {
		switch mode {
		case "exit":
			return 7
		case "signal":
			got := make(chan os.Signal, 1)
			signal.Notify(got, syscall.SIGTERM)
			fmt.Println("ready")
			<-got
			return 9
		case "orphan":
			return helperOrphan()
		default: // "mesh"
			return withNetwork(runMesh)
		}
	})
	if err != nil {
		fmt.Println("refused:", err)
		return 3
	}
	return code
}

// runHelperOnOtherThread runs a sandbox that is not called on the first thread of the process, like one
// that is called late in main. Other goroutines then run on that thread.
func runHelperOnOtherThread() int {
	runtime.LockOSThread()
	started, result := make(chan struct{}), make(chan int, 1)
	go func() {
		code, err := netns.Run(func() int {
			close(started)
			return withNetwork(startManyProcesses)
		})
		if err != nil {
			fmt.Println("refused:", err)
			code = 3
		}
		result <- code
	}()
	select {
	case <-started:
		runtime.UnlockOSThread()
		return <-result
	case code := <-result:
		return code
	}
}

// withNetwork calls run with a new network and the directory of its files, which it removes afterwards.
// It prints an error and returns 1 if creating the network or run fails, and 0 otherwise.
func withNetwork(run func(*netns.Network, string) error) int {
	dir, err := os.MkdirTemp("", "netns-test-")
	if err == nil {
		defer os.RemoveAll(dir)
		var network *netns.Network
		if network, err = netns.New(netns.Options{Dir: dir}); err == nil {
			err = run(network, dir)
		}
	}
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	return 0
}

// startManyProcesses starts processes one after another on a node of the network, which it then closes.
func startManyProcesses(network *netns.Network, _ string) error {
	node, err := network.AddNode(netns.NodeOptions{Name: "a", Addrs: []netip.Addr{netip.AddrFrom4([4]byte{10, 66, 1, 1})}})
	for range 100 {
		if err != nil {
			break
		}
		var p *netns.Process
		if p, err = node.Start(netns.Command{Path: "/bin/true"}); err == nil {
			err = p.Wait(context.Background())
		}
	}
	return errors.Join(err, network.Close())
}

// helperOrphan starts a child that leaves a grandchild behind, and looks whether PID 1 reaps that.
func helperOrphan() int {
	out, err := exec.Command("sh", "-c", "sleep 0.01 & echo $!").Output()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	proc := "/proc/" + strings.TrimSpace(string(out))
	for range 500 {
		if _, err := os.Stat(proc); err != nil {
			return 0
		}
		time.Sleep(5 * time.Millisecond)
	}
	fmt.Println(proc, "is still there")
	return 1
}

// runMesh creates two nodes with a process each, connects them, removes dir, prints "ready", and
// waits until it is killed.
func runMesh(network *netns.Network, dir string) error {
	for i, name := range []string{"a", "b"} {
		node, err := network.AddNode(netns.NodeOptions{Name: name, Addrs: []netip.Addr{netip.AddrFrom4([4]byte{10, 66, 1, byte(i)})}})
		if err != nil {
			return err
		}
		if _, err := node.Start(netns.Command{Path: "sleep", Args: []string{"1000"}}); err != nil {
			return err
		}
	}
	l, err := network.Node("b").Listen("tcp", ":80")
	if err != nil {
		return err
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := network.Node("a").Dial(ctx, "tcp", "10.66.1.1:80")
	if err != nil {
		return err
	}
	conn.Close()
	os.RemoveAll(dir)
	fmt.Println("ready")
	select {}
}

// helper starts the test binary as a program in a sandbox inside this one, and returns it with its output.
func helper(t *testing.T, mode string, change func(*exec.Cmd)) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	netns.Require(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), helperVar + "=" + mode}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if change != nil {
		change(cmd)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, bufio.NewReader(out)
}

func expectLine(t *testing.T, out *bufio.Reader, want string) {
	t.Helper()
	line, err := out.ReadString('\n')
	if err != nil || strings.TrimSpace(line) != want {
		t.Fatalf("the helper said %q (%v), want %q", line, err, want)
	}
}

func expectStatus(t *testing.T, cmd *exec.Cmd, want int) {
	t.Helper()
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != want {
		t.Errorf("exit status %d, want %d", got, want)
	}
}
