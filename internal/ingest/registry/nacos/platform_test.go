package nacos

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/platform"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// at returns healthy instances with these last numbers of their addresses.
func at(numbers ...int) []instance {
	var list []instance
	for _, n := range numbers {
		ip := fmt.Sprintf("192.0.2.%d", n)
		list = append(list, instance{ID: fmt.Sprint(n), IP: ip, Port: 8080, Weight: 1, Healthy: true, Enabled: true, ClusterName: "DEFAULT"})
	}
	return list
}

// follow runs a Platform of the server, after another address that does not answer. edits change
// its settings.
func follow(t *testing.T, f *fakeServer, edits ...func(*Settings)) *platform.Follower {
	t.Helper()
	auth := filepath.Join(t.TempDir(), "auth")
	if err := os.WriteFile(auth, []byte("mesh:pass\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	settings := DefaultSettings()
	settings.Servers, settings.Groups = []string{"127.0.0.1:1", f.address}, []string{defaultGroup, "blue"}
	settings.Interval, settings.AuthFile = 10*time.Millisecond, auth
	for _, edit := range edits {
		edit(&settings)
	}
	p, err := New(settings, nil, clock.System{})
	if err != nil {
		t.Fatal(err)
	}
	return platform.Follow(t, p)
}

func TestWatch(t *testing.T) {
	f := newFakeServer(t, nil)
	f.services["DEFAULT_GROUP@@web"], f.services["blue@@api"] = at(1, 2), at(3)
	follower := follow(t, f)
	follower.Await("DEFAULT_GROUP/web: 1 2; blue/api: 3")

	// Pushes of known services, and new services by the next list.
	f.edit(func() { f.services["DEFAULT_GROUP@@web"] = at(2, 4) }, "DEFAULT_GROUP@@web")
	follower.Await("DEFAULT_GROUP/web: 2 4; blue/api: 3")
	f.edit(func() { f.services["DEFAULT_GROUP@@new"] = at(5) })
	follower.Await("DEFAULT_GROUP/new: 5; DEFAULT_GROUP/web: 2 4; blue/api: 3")
	f.edit(func() { f.services["blue@@api"] = nil }, "blue@@api")
	f.edit(func() { delete(f.services, "DEFAULT_GROUP@@new") })
	follower.Await("DEFAULT_GROUP/web: 2 4")
	f.edit(func() { f.services["blue@@api"] = at(6) }, "blue@@api")
	follower.Await("DEFAULT_GROUP/web: 2 4; blue/api: 6")

	// A service that may not be read stays as it was, and the others change.
	f.cut(func() { f.denied["blue@@api"] = true })
	follower.AwaitProblem("code 403: authorization failed!")
	f.edit(func() { f.services["DEFAULT_GROUP@@web"] = at(2) }, "DEFAULT_GROUP@@web")
	follower.Await("DEFAULT_GROUP/web: 2; blue/api: 6")
	f.cut(func() { delete(f.denied, "blue@@api") })
	follower.AwaitProblem("")

	// Errors change nothing.
	unchanged := follower.Mark()
	connections := f.connections()
	f.send(resetRequest)
	serving.Eventually(t, 30*time.Second, "another connection", func() error {
		if f.connections() == connections {
			return errors.New("none yet")
		}
		return nil
	})
	follower.AwaitProblem("")
	f.edit(func() { f.garbage = true })
	follower.AwaitProblem("is not JSON of Nacos")
	f.edit(func() { f.garbage = false })
	follower.AwaitProblem("")
	f.send(detectionRequest)
	f.send("UnknownRequest")
	serving.Eventually(t, 30*time.Second, "the acknowledgements", func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, want := range []string{"ConnectionSetupRequest", "NotifySubscriberResponse push-DEFAULT_GROUP@@web", "ClientDetectionResponse ClientDetectionRequest"} {
			if !slices.Contains(f.acks, want) {
				return errors.New(want + " is missing in " + strings.Join(f.acks, ", "))
			}
		}
		return nil
	})
	unchanged()
}

// TestManyServices lists services in several pages.
func TestManyServices(t *testing.T) {
	f := newFakeServer(t, nil)
	var want []string
	for i := range pageSize + 1 {
		name := fmt.Sprintf("s%04d", i)
		f.services["DEFAULT_GROUP@@"+name] = at(1)
		want = append(want, "DEFAULT_GROUP/"+name+": 1")
	}
	follow(t, f).Await(strings.Join(want, "; "))
}

// TestTLS reads from a server that requires client certificates, by another name than that of its
// address.
func TestTLS(t *testing.T) {
	files := pki.NewFiles(t, "nacos.example.com")
	pair, err := tls.LoadX509KeyPair(files.ServerCertFile, files.ServerKeyFile)
	if err != nil {
		t.Fatal(err)
	}
	f := newFakeServer(t, &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: files.CA.Pool(),
	})
	f.services["DEFAULT_GROUP@@web"] = at(1)
	secure := func(s *Settings) {
		s.TLS, s.CAFile, s.CertFile, s.KeyFile, s.ServerName = true, files.CAFile, files.CertFile, files.KeyFile, "nacos.example.com"
	}
	follow(t, f, secure).Await("DEFAULT_GROUP/web: 1")
	other := func(s *Settings) { s.ServerName = "other.example.com" }
	follow(t, f, secure, other).AwaitProblem("certificate is valid for nacos.example.com")
}

// TestWrongPassword cannot log in.
func TestWrongPassword(t *testing.T) {
	f := newFakeServer(t, nil)
	wrong := filepath.Join(t.TempDir(), "wrong")
	if err := os.WriteFile(wrong, []byte("mesh:guess"), 0o600); err != nil {
		t.Fatal(err)
	}
	follow(t, f, func(s *Settings) { s.AuthFile = wrong }).AwaitProblem("the login is answered with status 403")
}

func TestSettings(t *testing.T) {
	for want, edit := range map[string]func(*Settings){
		"":                                     func(*Settings) {},
		"--nacosServers: must name a server":   func(s *Settings) { s.Servers = nil },
		"--nacosGroups: must name a group":     func(s *Settings) { s.Groups = nil },
		"--nacosInterval 0s: must be positive": func(s *Settings) { s.Interval = 0 },
		"--nacosHoldTime -1ns: must not be negative": func(s *Settings) { s.HoldTime = -1 },
		`--nacosServers "h:65000": want host:port, with the port of HTTP (8848)`: func(s *Settings) {
			s.Servers = []string{"h:65000"}
		},
		"--nacosCAFile, --nacosCertFile, --nacosKeyFile, --nacosServerName: need --nacosTLS": func(s *Settings) { s.CAFile = "x" },
		"--nacosCertFile, --nacosKeyFile: one needs the other":                               func(s *Settings) { s.TLS, s.KeyFile = true, "x" },
	} {
		s := DefaultSettings()
		s.Servers = []string{"127.0.0.1:8848"}
		edit(&s)
		got := ""
		if err := s.Validate(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
