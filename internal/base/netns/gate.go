package netns

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// reasonVar is the variable in which TestMain and TestMainOutside record why there is no sandbox.
const reasonVar = "MESHPILOT_NETNS_UNAVAILABLE"

// Available returns nil in a sandbox, and otherwise an error of one line with the reason.
func Available() error {
	if Inside() {
		return nil
	}
	if reason := os.Getenv(reasonVar); reason != "" { //nolint:forbidigo // set by TestMain
		return errors.New(reason)
	}
	return errors.New("this program was not started through netns.Run or netns.TestMain")
}

// TestMain is the body of a test package's TestMain: it runs the tests in a sandbox. If none can be
// made, the tests run without one, and tests that call Require are skipped.
//
//	func TestMain(m *testing.M) { os.Exit(netns.TestMain(m)) }
func TestMain(m interface{ Run() int }) int {
	code, err := Run(m.Run)
	if err == nil {
		return code
	}
	if err := os.Setenv(reasonVar, err.Error()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// TestMainOutside is the body of TestMain of a package whose tests start programs that make
// sandboxes themselves. It tries whether a sandbox can be made, and runs the tests outside of it in
// both cases. They call RequireSandboxes.
func TestMainOutside(m interface{ Run() int }) int {
	code, err := Run(func() int { return 0 })
	if Inside() {
		return code
	}
	if err != nil {
		if err := os.Setenv(reasonVar, err.Error()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

// RequireSandboxes skips a test of a package with TestMainOutside if no sandbox can be made. With
// CI=true in the environment it fails the test instead.
func RequireSandboxes(t TB) {
	t.Helper()
	reason := os.Getenv(reasonVar) //nolint:forbidigo // set by TestMainOutside
	switch {
	case reason == "":
	case os.Getenv("CI") == "true": //nolint:forbidigo // a test binary has no flag for it
		t.Fatal(reason)
	default:
		t.Skip(reason)
	}
}

// TB is what Require needs of a testing.TB.
type TB interface {
	Helper()
	Skip(args ...any)
	Fatal(args ...any)
}

// Require skips a test that is not in a sandbox, with the reason. With CI=true in the environment
// it fails the test instead.
func Require(t TB) {
	t.Helper()
	err := Available()
	switch {
	case err == nil:
	case os.Getenv("CI") == "true": //nolint:forbidigo // a test binary has no flag for it
		t.Fatal(err)
	default:
		t.Skip(err)
	}
}

// RequireUID skips a test in a sandbox where no process can run as uid (MapsUID). With CI=true in
// the environment it fails the test instead.
func RequireUID(t TB, uid int) {
	t.Helper()
	switch {
	case MapsUID(uid):
	case os.Getenv("CI") == "true": //nolint:forbidigo // a test binary has no flag for it
		t.Fatal("must run as root")
	default:
		t.Skip("the agent must run as a user of its own, which takes root")
	}
}

// MapsUID reports whether a process of this sandbox can run as uid. In a user namespace that an
// unprivileged user made, only 0 can.
func MapsUID(uid int) bool {
	return mapsUID(readFile("/proc/self/uid_map"), uid)
}

// mapsUID reports whether uidMap contains uid as an ID inside the namespace. uidMap has lines
// "inside outside length", see user_namespaces(7). Other lines are skipped.
func mapsUID(uidMap string, uid int) bool {
	for line := range strings.Lines(uidMap) {
		var inside, outside, length int
		if n, _ := fmt.Sscan(line, &inside, &outside, &length); n == 3 && uid >= inside && uid-inside < length {
			return true
		}
	}
	return false
}

// explainError returns an error about a refused sandbox, with the setting that is known to cause
// err, or else general advice. It returns nil for nil.
func explainError(err error) error {
	if err == nil {
		return nil
	}
	hint := "run as root, or allow unprivileged user namespaces"
	for _, s := range []struct{ path, forbids string }{
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0"},
		{"/proc/sys/user/max_user_namespaces", "0"},
		{"/proc/sys/user/max_net_namespaces", "0"},
	} {
		if strings.TrimSpace(readFile(s.path)) == s.forbids {
			name := strings.ReplaceAll(strings.TrimPrefix(s.path, "/proc/sys/"), "/", ".")
			hint = fmt.Sprintf("%s=%s forbids it; run as root, or change that setting", name, s.forbids)
			break
		}
	}
	return fmt.Errorf("network namespaces cannot be created as uid %d: %w (%s)", os.Geteuid(), err, hint)
}

// readFile returns the content of a file, or nothing if it cannot be read.
func readFile(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}
