package hack

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// machine is a PATH of a fresh machine: Go, Python with pip, and the programs that everyday tests need.
type machine struct {
	dir string
	// installed is the file to which apt-get and dnf write their arguments.
	installed string
}

// newMachine makes a PATH with an apt-get that installs nothing. uid is the user of the script.
func newMachine(t *testing.T, uid string) machine {
	t.Helper()
	m := machine{dir: t.TempDir(), installed: filepath.Join(t.TempDir(), "installed")}
	for _, name := range []string{"bash", "dirname", "sed"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(m.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"go", "iptables", "ip6tables", "nft", "curl", "nsenter"} {
		m.add(t, name, "")
	}
	m.add(t, "id", "echo "+uid)
	m.add(t, "apt-get", `echo "$@" >>`+m.installed)
	m.python(t, "no venv")
	return m
}

// add puts a program with the text of a script in the PATH.
func (m machine) add(t *testing.T, name, script string) {
	t.Helper()
	text := "#!" + filepath.Join(m.dir, "bash") + "\n" + script + "\n"
	if err := os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
}

// remove removes programs from the PATH.
func (m machine) remove(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.Remove(filepath.Join(m.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// useDNF replaces apt-get by a dnf that installs nothing.
func (m machine) useDNF(t *testing.T) {
	t.Helper()
	m.remove(t, "apt-get")
	m.add(t, "dnf", `echo "$@" >>`+m.installed)
}

// python puts a Python in the PATH that lacks something: "no venv", "old" or "".
func (m machine) python(t *testing.T, lacks string) {
	t.Helper()
	m.add(t, "python3", `case "$*" in
--version) echo Python 3.9.2 ;;
*ensurepip*) [[ "`+lacks+`" != "no venv" ]] ;;
*version_info*) [[ "`+lacks+`" != old ]] ;;
esac`)
}

// run runs the script. It returns its messages and the exit code.
func (m machine) run(t *testing.T, ci string) (string, int) {
	t.Helper()
	c := exec.CommandContext(t.Context(), filepath.Join(m.dir, "bash"), "prerequisites.sh", "test")
	c.Env = []string{"PATH=" + m.dir, "CI=" + ci, "HOME=" + t.TempDir()}
	var stderr bytes.Buffer
	c.Stderr = &stderr
	var exit *exec.ExitError
	if err := c.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return stderr.String(), c.ProcessState.ExitCode()
}

// TestPrerequisites runs the script for make test on machines that have no npm, Chromium and venv.
func TestPrerequisites(t *testing.T) {
	const missing = "missing: chromium npm python3-venv (Debian: apt-get install chromium npm python3-venv; "
	for _, c := range []struct {
		name, uid, ci string
		change        func(*testing.T, machine)
		want          []string // messages; none: the script prints nothing
		code          int
		installed     string
	}{
		{name: "user", uid: "1000", want: []string{missing, "the tests that need them are skipped"}},
		{name: "user in CI", uid: "1000", ci: "true", want: []string{missing}, code: 1},
		{name: "root", uid: "0", want: []string{missing, "the tests that need them are skipped"}},
		{name: "root without programs of everyday tests", uid: "0", change: func(t *testing.T, m machine) {
			m.remove(t, "curl", "nsenter")
		}, want: []string{"installing with apt-get: curl util-linux", "missing: curl util-linux"}, installed: "curl util-linux"},
		{name: "user without programs of everyday tests", uid: "1000", change: func(t *testing.T, m machine) {
			m.remove(t, "curl", "nsenter")
		}, want: []string{"missing: curl util-linux", "the tests that need them are skipped"}},
		{name: "root with dnf", uid: "0", ci: "true", change: func(t *testing.T, m machine) {
			m.useDNF(t)
			m.remove(t, "curl")
		}, want: []string{"installing with dnf: curl"}, code: 1, installed: "curl chromium npm python3-libs"},
		{name: "root in CI", uid: "0", ci: "true", want: []string{missing}, code: 1, installed: "chromium npm python3-venv"},
		{name: "all", uid: "1000", ci: "true", change: func(t *testing.T, m machine) {
			m.add(t, "chromium", "")
			m.add(t, "npm", "")
			m.python(t, "")
		}},
		{name: "old Python", uid: "1000", ci: "true", change: func(t *testing.T, m machine) {
			m.add(t, "chromium", "")
			m.add(t, "npm", "")
			m.python(t, "old")
		}, want: []string{"Python 3.9.2 is too old for the documentation site: Python 3.11 or later is needed"}, code: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t, c.uid)
			if c.change != nil {
				c.change(t, m)
			}
			text, code := m.run(t, c.ci)
			if strings.Contains(text, "ca-certificates") {
				t.Skip("no bundle of certificate authorities is installed here")
			}
			if code != c.code || (text == "") != (len(c.want) == 0) {
				t.Errorf("exit code %d, want %d:\n%s", code, c.code, text)
			}
			for _, w := range c.want {
				if !strings.Contains(text, w) {
					t.Errorf("the messages lack %q:\n%s", w, text)
				}
			}
			installed, err := os.ReadFile(m.installed)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			if got := string(installed); (got == "") != (c.installed == "") || !strings.Contains(got, c.installed) {
				t.Errorf("the package manager was called with %q, want the packages %q", got, c.installed)
			}
		})
	}
}
