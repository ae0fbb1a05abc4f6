package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/osthread"
)

// The pod network of the tests.
const (
	podAddress4, hostAddress4 = "172.18.0.11", "172.18.0.1"
	podAddress6, hostAddress6 = "fd00:18::11", "fd00:18::1"
)

// sandbox is a pod's network namespace, connected to that of its host.
type sandbox struct{ pod, host *os.File }

func newSandbox(t *testing.T) sandbox {
	t.Helper()
	cluster.RequireNode(t)
	var s sandbox
	for _, network := range []**os.File{&s.pod, &s.host} {
		made, err := osthread.NewNetwork()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { made.Close() })
		*network = made
	}
	err := errors.Join(
		osthread.Inside(s.pod, func() error {
			return netlink.LinkAdd(
				&netlink.Veth{
					LinkAttrs:     netlink.LinkAttrs{Name: "eth0"},
					PeerName:      "eth0",
					PeerNamespace: netlink.NsFd(s.host.Fd()),
				},
			)
		}),
		osthread.Inside(s.pod, func() error { return configure(podAddress4+"/24", podAddress6+"/64") }),
		osthread.Inside(s.host, func() error { return configure(hostAddress4+"/24", hostAddress6+"/64") }),
	)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// configure brings up loopback, and eth0 with its addresses.
func configure(addresses ...string) error {
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	link, err := netlink.LinkByName("eth0")
	if err != nil {
		return err
	}
	for _, text := range addresses {
		a, err := netlink.ParseAddr(text)
		if err != nil {
			return err
		}
		if a.IP.To4() == nil {
			a.Flags = unix.IFA_F_NODAD
		}
		if err := netlink.AddrAdd(link, a); err != nil {
			return err
		}
	}
	return errors.Join(netlink.LinkSetUp(loopback), netlink.LinkSetUp(link))
}

func path(network *os.File) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), network.Fd()) }

// answerAt answers connections to a port of a network with a label.
func answerAt(t *testing.T, network *os.File, port uint16, label string) {
	t.Helper()
	for _, family := range []string{"tcp4", "tcp6"} {
		var l net.Listener
		if err := osthread.Inside(network, func() (err error) {
			l, err = net.Listen(family, fmt.Sprintf(":%d", port))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(conn, label)
				conn.Close()
			}
		}()
	}
}

// ask connects from a network, as a user, and returns the answer.
func ask(network *os.File, uid int, address string, port uint16) (string, error) {
	var answer []byte
	err := osthread.Inside(network, func() error {
		before, err := unix.SetfsuidRetUid(uid)
		if err != nil {
			return err
		}
		defer func() { _, _ = unix.SetfsuidRetUid(before) }()
		conn, err := (&net.Dialer{Timeout: 3 * time.Second}).Dial(
			"tcp",
			netip.AddrPortFrom(netip.MustParseAddr(address), port).String(),
		)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(3 * time.Second)); err != nil {
			return err
		}
		answer, err = io.ReadAll(conn)
		return err
	})
	return string(answer), err
}

// failure is a plugin's error output.
type failure struct {
	Code         uint
	Msg, Details string
}

// call calls the plugin as a container runtime does, and returns its output.
func call(t *testing.T, command, network, pod, configuration string) (string, *failure) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(
		os.Environ(),
		"CNI_COMMAND="+command,
		"CNI_CONTAINERID=c1",
		"CNI_NETNS="+network,
		"CNI_IFNAME=eth0",
		"CNI_PATH=/opt/cni/bin",
		"CNI_ARGS="+pod,
	)
	cmd.Stdin = strings.NewReader(configuration)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	err = cmd.Run()
	t.Logf("%s of %q:\n%s", command, pod, log.String())
	if err == nil {
		return out.String(), nil
	}
	var exit *exec.ExitError
	f := new(failure)
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("%s: %v", command, err)
	}
	if err := json.Unmarshal(out.Bytes(), f); err != nil {
		t.Fatalf("%s failed and printed %q, which is no error of the specification: %v", command, out.String(), err)
	}
	return "", f
}

// validate runs the validation container: as the proxy's user and without capabilities.
func validate(t *testing.T, network *os.File, args []string) int {
	t.Helper()
	// Everybody may execute it by this name; the directory of go test is private.
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), initContainerVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1337, Gid: 1337}}
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	err := osthread.Inside(network, cmd.Start)
	if err == nil {
		err = cmd.Wait()
	}
	t.Logf("validation: %v\n%s", err, log.String())
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
}

// skelArgs returns the arguments of a call within this process.
func skelArgs(pod, configuration string) *skel.CmdArgs {
	return &skel.CmdArgs{
		ContainerID: "c1",
		Netns:       "/nowhere",
		IfName:      "eth0",
		Args:        pod,
		StdinData:   []byte(configuration),
	}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
