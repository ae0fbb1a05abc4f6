package iptables_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/meshpilot/meshpilot/internal/capture/iptables"
)

const (
	// unprivilegedID is a user and group without privileges.
	unprivilegedID = "65534"
	// stageVariable names the stage that the test binary runs when it runs itself.
	stageVariable = "MESHPILOT_IPTABLES_TEST_STAGE"
	// rerunTimeout is the timeout of a second run of the test binary.
	rerunTimeout = 30 * time.Second
)

// TestInUserNamespace runs tests again as an unprivileged user who is root in a user namespace with
// a single mapped uid, the case of capture by mark.
func TestInUserNamespace(t *testing.T) {
	if os.Getenv(stageVariable) != "" {
		return
	}
	prefix := []string{program(t, "unshare"), "-Urnm", "--propagation", "private"}
	binary := readableCopy(t)
	if os.Geteuid() == 0 {
		prefix = append(asNobody(t), prefix...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), rerunTimeout)
	defer cancel()
	if out, err := exec.CommandContext(ctx, prefix[0], append(prefix[1:], "true")...).CombinedOutput(); err != nil {
		skipOrFail(t, "this system does not let ordinary users make user namespaces: %v: %s", err, out)
	}

	out := rerun(t, prefix, binary, "TestTruthTable|TestTProxyTable|TestDNSTable|TestSecondRunChangesNothing|TestValidation|TestBornWithUserNamespace")
	for _, want := range []string{
		"TestTruthTable/nftables/mark/IPv4", "TestTruthTable/nftables/mark/IPv6",
		"TestTruthTable/iptables-nft/mark/IPv4", "TestTruthTable/iptables-nft/mark/IPv6",
		"TestTProxyTable/nftables/mark/IPv4", "TestTProxyTable/nftables/mark/IPv6", "TestTProxyTable/iptables-nft/mark/IPv6",
		"TestDNSTable/nftables/mark/servers", "TestDNSTable/nftables/mark/all", "TestDNSTable/iptables-nft/mark/all",
		"TestSecondRunChangesNothing/nftables", "TestSecondRunChangesNothing/iptables-nft", "TestValidation/mark",
		"TestBornWithUserNamespace",
	} {
		if !strings.Contains(out, "--- PASS: "+want+" ") {
			t.Errorf("%s did not run or did not pass:\n%s", want, out)
		}
	}
}

// TestBornWithUserNamespace is the case of `unshare -Urn`: a network namespace created together
// with its user namespace.
func TestBornWithUserNamespace(t *testing.T) {
	if os.Getenv(stageVariable) == "" {
		return // run by TestInUserNamespace
	}
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "eth1"}); err != nil {
		t.Fatal(err)
	}
	if err := configure([]string{podAddr4 + "/24"}, nil, nil); err != nil {
		t.Fatal(err)
	}
	options := sidecarOptions()
	options.RunValidation = true
	if err := iptables.Run(t.Context(), options, system(t)); err != nil {
		t.Error(err)
	}
}

// TestWithoutPrivilege runs again as an unprivileged user, in a namespace created for it.
func TestWithoutPrivilege(t *testing.T) {
	if os.Getenv(stageVariable) != "" {
		cases := manners()
		cases["any"] = sidecarOptions()
		for manner, options := range cases {
			options.CNIMode = false
			if err := iptables.Run(t.Context(), options, system(t)); !errors.Is(err, iptables.ErrNotPermitted) {
				t.Errorf("%s: got error %v, want ErrNotPermitted", manner, err)
			}
		}
		return
	}
	pod, _ := newPod(t)
	prefix, binary := asNobody(t), readableCopy(t)
	err := pod.do(func() error {
		rerun(t, prefix, binary, "TestWithoutPrivilege")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if rules := pod.rules(t); len(rules) > 0 {
		t.Errorf("left behind:\n%s", strings.Join(rules, "\n"))
	}
}

func asNobody(t *testing.T) []string {
	t.Helper()
	return []string{program(t, "setpriv"), "--reuid=" + unprivilegedID, "--regid=" + unprivilegedID, "--clear-groups"}
}

// rerun runs tests of the test binary under a program that changes user and namespaces, and returns
// their output.
func rerun(t *testing.T, prefix []string, binary, tests string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), rerunTimeout)
	defer cancel()
	args := append(prefix[1:len(prefix):len(prefix)], binary, "-test.v", "-test.run", "^("+tests+")$")
	cmd := exec.CommandContext(ctx, prefix[0], args...)
	cmd.Env = append(os.Environ(), stageVariable+"=again")
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
	return string(out)
}

// readableCopy copies the test binary to where every user may read and execute it; go test builds
// in a private directory.
func readableCopy(t *testing.T) string {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "meshpilot-iptables-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	copied := filepath.Join(dir, "iptables.test")
	to, err := os.OpenFile(copied, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return copied
}
