package demo

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh/meshtest"
	"github.com/meshpilot/meshpilot/test/support/consul"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/program"
)

const (
	limit = 3 * time.Minute
	// unprivilegedUser owns no files.
	unprivilegedUser = 65534
)

// TestMain runs the tests outside of a sandbox: the demo creates its own.
func TestMain(m *testing.M) { os.Exit(netns.TestMainOutside(m)) }

// TestStory plays the demo as the user that runs the test.
func TestStory(t *testing.T) {
	longtest.Test(t)
	play(t, nil)
}

// TestStoryWithoutRoot plays it as a user without rights, in a user namespace, with capture by mark and over netlink.
func TestStoryWithoutRoot(t *testing.T) {
	longtest.Test(t)
	if os.Geteuid() != 0 {
		t.Skip("the tests run without root: TestStory has shown it")
	}
	play(t, &syscall.Credential{Uid: unprivilegedUser, Gid: unprivilegedUser})
}

// TestConsulStory plays the story of services that are registered in Consul.
func TestConsulStory(t *testing.T) {
	consul.Require(t)
	path, err := consul.Binary(t.Context(), func() { t.Log("building Consul: once, several minutes") })
	if err != nil {
		t.Fatal(err)
	}
	play(t, nil, "--consul", path)
}

func play(t *testing.T, as *syscall.Credential, args ...string) {
	netns.RequireSandboxes(t)
	bin := programs(t, envoy.RequireBinary(t), as)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	demo := exec.CommandContext(ctx, filepath.Join(bin, "demo"),
		append([]string{"--bin", bin, "--envoy", filepath.Join(bin, "envoy"), "--dir", bin}, args...)...)
	demo.Cancel = func() error { return demo.Process.Signal(syscall.SIGTERM) }
	demo.WaitDelay = 20 * time.Second
	demo.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	demo.Env = append(os.Environ(), "KEEP=", "HOME="+bin)
	demo.Dir = bin
	out := &output{}
	demo.Stdout, demo.Stderr = out, out
	if err := demo.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out.console != http.StatusOK {
		t.Errorf("the web console answered %d, %v\n%s", out.console, out.err, out)
	}
}

// output is the output of a demo. It opens the web console when its address is printed.
type output struct {
	text    bytes.Buffer // not embedded: exec would copy by its ReadFrom instead of Write
	console int          // the status of its answer
	err     error
}

// consoleAddress matches the address of the web console.
var consoleAddress = regexp.MustCompile(`http://localhost:[0-9]+/ui/`)

func (o *output) Write(text []byte) (int, error) {
	if url := consoleAddress.Find(text); url != nil && o.console == 0 {
		client := http.Client{Timeout: 20 * time.Second}
		var answer *http.Response
		if answer, o.err = client.Get(string(url)); o.err == nil {
			answer.Body.Close()
			o.console = answer.StatusCode
		}
	}
	return o.text.Write(text)
}

// String returns the written text.
func (o *output) String() string { return o.text.String() }

// programs builds everything into a directory that the user can read, write and run things from.
func programs(t *testing.T, proxy string, as *syscall.Credential) string {
	t.Helper()
	bin, err := os.MkdirTemp("", "meshpilot-story-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(bin) })
	if err := meshtest.Build(bin); err != nil {
		t.Fatal(err)
	}
	if err := program.Into(t.Context(), bin, "samples/bookinfo/demo"); err != nil {
		t.Fatal(err)
	}
	if err := program.PlaceFile(proxy, filepath.Join(bin, "envoy")); err != nil { // the cache is its owner's
		t.Fatal(err)
	}
	if as != nil {
		if err := os.Chown(bin, int(as.Uid), int(as.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	return bin
}
