package vm

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
)

// releaseDir has the packages that TestPackages installs.
var releaseDir = flag.String("release", "", "directory of a release whose packages TestPackages installs") //nolint:gochecknoglobals // a flag

// packager installs packages of one format.
type packager struct {
	extension string
	// prepare is run before the first installation.
	prepare                    string
	install, reinstall, remove string
	// file replaces $1, the name of a package, by a pattern of its file.
	file string
}

// packagers returns the formats of packages: those of Debian, and those of Fedora by Debian's rpm. For the
// latter, a package without files stands for the C library, which Debian's has installed.
func packagers() []packager {
	return []packager{
		{
			extension: "deb",
			install:   "apt-get install -y",
			reinstall: "apt-get install -y --reinstall",
			remove:    "apt-get remove -y",
			file:      "./${1}_*.deb",
		},
		{
			extension: "rpm",
			prepare: `rpm --force-debian -i ./meshpilot-agent-[0-9]*.rpm 2>&1 | grep 'glibc >= 2.31 is needed by meshpilot-agent'
				printf '%s\n' 'Name: glibc' 'Version: 2.36' 'Release: 1' 'Summary: C' 'License: x' '%description' '%files' > glibc.spec
				rpmbuild --quiet -bb glibc.spec
				rpm --force-debian -i rpmbuild/RPMS/*/glibc-*.rpm`,
			install:   "rpm --force-debian -i",
			reinstall: "rpm --force-debian -U --replacepkgs",
			remove:    "rpm --force-debian -e",
			file:      "./${1}-[0-9]*.rpm",
		},
	}
}

// adapt returns a script that installs deb packages with the packager's command and files instead.
func (p packager) adapt(script string) string {
	script = strings.ReplaceAll(script, "apt-get install -y --reinstall", p.reinstall)
	script = strings.ReplaceAll(script, "apt-get install -y", p.install)
	script = strings.ReplaceAll(script, "apt-get remove -y", p.remove)
	return regexp.MustCompile(`\./([a-z-]+)_\*\.deb`).ReplaceAllString(script, p.file)
}

// system is a freshly installed Debian in a folder, which runs in a network node.
type system struct {
	t    *testing.T
	node *netns.Node
	packager
	root string
}

// newSystem copies a freshly installed Debian, and puts the packages of a format into its root's home. Its
// systemctl is testdata/systemctl, because no systemd runs in it.
func newSystem(t *testing.T, network *netns.Network, p packager, base, name, address string) *system {
	t.Helper()
	node, err := network.AddNode(netns.NodeOptions{Name: name, Addrs: []netip.Addr{netip.MustParseAddr(address)}})
	if err != nil {
		t.Fatal(err)
	}
	s := &system{t: t, node: node, packager: p, root: filepath.Join(t.TempDir(), name)}
	runHost(t, "cp", "-a", base, s.root)
	packages, err := filepath.Glob(filepath.Join(*releaseDir, "*."+p.extension))
	if err != nil || len(packages) == 0 {
		t.Fatalf("%s has no packages: %v", *releaseDir, err)
	}
	runHost(t, "cp", append(packages, filepath.Join(s.root, "root"))...)
	runHost(t, "cp", "testdata/systemctl", filepath.Join(s.root, "usr/bin/systemctl"))
	for name, text := range map[string]string{
		"etc/resolv.conf": "nameserver " + planeAddress.String() + "\n", // captured by the agent
		"etc/hosts":       "127.0.0.1 localhost\n",
	} {
		if err := os.WriteFile(filepath.Join(s.root, name), []byte(text), 0o644); err != nil { //nolint:gosec // as on any system
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(s.root, "run/systemd/system"), 0o755); err != nil { //nolint:gosec // as on any system
		t.Fatal(err)
	}
	s.onNode("sh", "-c", "mount -t proc proc $0/proc && mount --rbind /dev $0/dev && mount -t tmpfs tmpfs $0/tmp", s.root)
	t.Cleanup(func() {
		if t.Failed() {
			logs, _ := exec.Command("sh", "-c", "tail -n 30 "+s.root+"/run/units/*.log").CombinedOutput()
			t.Logf("logs of %s:\n%s", name, logs)
		}
	})
	if p.prepare != "" {
		s.run(p.prepare)
	}
	return s
}

// runHost runs a program of this machine.
func runHost(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// onNode runs a program of this machine in the node, and returns its output.
func (s *system) onNode(path string, args ...string) string {
	s.t.Helper()
	file, err := os.CreateTemp(s.t.TempDir(), "out")
	if err != nil {
		s.t.Fatal(err)
	}
	defer file.Close()
	p, err := s.node.Start(netns.Command{Path: path, Args: args, Dir: "/", Stdout: file, Stderr: file})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*time.Minute)
	defer cancel()
	waitErr := p.Wait(ctx)
	out, err := os.ReadFile(file.Name())
	if waitErr != nil || err != nil {
		s.t.Fatalf("on %s: %v %v\n%s\n%s", s.node.Name(), waitErr, err, strings.Join(args, " "), out)
	}
	return string(out)
}

// run runs a shell script in the system, as root in its home, and returns its output. Commands that
// install deb packages install those of the system's format.
func (s *system) run(script string) string {
	s.t.Helper()
	return s.onNode("chroot", s.root, "/usr/bin/env", "-i", "HOME=/root", "DEBIAN_FRONTEND=noninteractive",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "sh", "-e", "-c", "cd; "+s.adapt(script))
}

// commands returns the blocks of commands of docs/VIRTUAL-MACHINES.md that begin with the comment
// "# on the HOST", with the host, in their order.
func commands(t *testing.T) (list [][2]string) {
	t.Helper()
	text, err := os.ReadFile("../../../docs/VIRTUAL-MACHINES.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(text), "\n    # on the ")[1:] {
		host, rest, _ := strings.Cut(block, "\n")
		var script strings.Builder
		for line := range strings.Lines(rest) {
			code, indented := strings.CutPrefix(line, "    ")
			if !indented && strings.TrimSpace(line) != "" {
				break
			}
			script.WriteString(code)
		}
		list = append(list, [2]string{host, script.String()})
	}
	return list
}

// debian returns a folder with a freshly installed Debian, from the user's cache or by debootstrap.
func debian(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(cache, "meshpilot", "debian-bookworm-rpm")
	if _, err := os.Stat(root); err == nil {
		return root
	}
	if _, err := exec.LookPath("debootstrap"); err != nil {
		t.Fatal("debootstrap is missing: apt-get install debootstrap")
	}
	partial := root + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		t.Fatal(err)
	}
	runHost(t, "debootstrap", "--variant=minbase", "--include=curl,rpm", "bookworm", partial)
	if err := os.Rename(partial, root); err != nil {
		t.Fatal(err)
	}
	return root
}

// TestPackages runs the commands of docs/VIRTUAL-MACHINES.md on freshly installed systems with the
// packages of a release, then reinstalls and removes them, in each format.
func TestPackages(t *testing.T) {
	if *releaseDir == "" {
		t.Skip("it needs the packages of a release: `make release-vm` runs it")
	}
	netns.Require(t)
	base := debian(t)
	for _, p := range packagers() {
		t.Run(p.extension, func(t *testing.T) { testPackages(t, p, base) })
	}
}

// testPackages is TestPackages for one format.
func testPackages(t *testing.T, p packager, base string) {
	t.Helper()
	network := newNetwork(t)
	plane := newSystem(t, network, p, base, "istiod", planeAddress.String())
	machine := newSystem(t, network, p, base, "ratings", "10.66.2.1")
	serveRatings(t, machine.node)

	blocks := commands(t)
	if len(blocks) != 4 {
		t.Fatalf("docs/VIRTUAL-MACHINES.md has %d blocks of commands", len(blocks))
	}
	var out string
	for i, block := range blocks {
		if i == 2 {
			runHost(t, "cp", "-r", filepath.Join(plane.root, "root/ratings-vm"), filepath.Join(machine.root, "root"))
		}
		on := map[string]*system{"control plane": plane, "machine": machine}[block[0]]
		if on == nil {
			t.Fatalf("no host %q", block[0])
		}
		out = on.run(block[1])
		t.Logf("on the %s:\n%s", block[0], out)
	}
	if !strings.Contains(out, "12 passed, 0 warnings, 0 failed, 0 skipped") {
		t.Error("a check of pilotctl workload doctor has not passed")
	}
	if want := "ratings called by " + "By=spiffe://cluster.local/ns/bookinfo/sa/bookinfo-ratings"; !strings.Contains(out, want) {
		t.Errorf("the call by name is not answered with %q", want)
	}

	t.Log("An upgrade leaves the agent running; its files and its directory of keys belong to it alone.")
	out = machine.run(`before=$(cat /run/units/meshpilot-agent.service.pid)
		echo AGENT_ARGS='"--proxyLogLevel=info"' > /etc/default/meshpilot-agent
		apt-get install -y --reinstall ./meshpilot-agent_*.deb
		kill -0 $before
		stat -L -c '%U %a' /etc/certs/key.pem /etc/certs
		cat /etc/default/meshpilot-agent`)
	if !strings.HasSuffix(out, "istio-proxy 600\nistio-proxy 750\nAGENT_ARGS=\"--proxyLogLevel=info\"\n") {
		t.Errorf("after the upgrade:\n%s", out)
	}
	plane.run("stat -c '%U %a' /var/lib/meshpilot | grep -x 'meshpilot 700'")

	t.Log("Without the package nothing is captured, and the machine's files are left.")
	machine.run(`apt-get remove -y meshpilot-agent
		test -e /etc/certs/key.pem
		! test -e /usr/local/bin/envoy
		! curl -fsS --max-time 2 http://192.0.2.1/`)
}

// serveRatings serves the application, which answers with the caller's identity, on the machine.
func serveRatings(t *testing.T, node *netns.Node) {
	t.Helper()
	l, err := node.Listen("tcp", ":9080")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "ratings called by %s", r.Header.Get("X-Forwarded-Client-Cert"))
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
}
