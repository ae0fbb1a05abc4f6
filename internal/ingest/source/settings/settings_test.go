package settings

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// reader takes batches apart, so that events can be waited for one by one.
type reader struct {
	t    *testing.T
	out  chan mesh.Batch
	rest mesh.Batch
}

// next returns the next event that the check is content with.
func (r *reader) next(check func(mesh.Event) bool) mesh.Event {
	r.t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		for len(r.rest) > 0 {
			e := r.rest[0]
			r.rest = r.rest[1:]
			if check(e) {
				return e
			}
		}
		select {
		case r.rest = <-r.out:
		case <-deadline:
			r.t.Fatal("no such event arrived")
		}
	}
}

func TestMeshConfigFollowsItsFile(t *testing.T) {
	defer goleak.VerifyNone(t)
	path := filepath.Join(t.TempDir(), "mesh")
	write(t, path, "trustDomain: one.example\ndefaultConfig: {discoveryAddress: istiod:15010}\n")
	ctx, cancel := context.WithCancel(t.Context())
	r := &reader{t: t, out: make(chan mesh.Batch)}
	done := make(chan error, 1)
	s := &Source{Mesh: path, Networks: filepath.Join(t.TempDir(), "absent")}
	go func() { done <- s.Run(ctx, r.out) }()

	first := r.next(func(e mesh.Event) bool { return e.Settings != nil })
	m := first.Settings.Mesh
	if m.TrustDomain != "one.example" || m.ProxyListenPort != 15001 || m.DefaultConfig.DiscoveryAddress != "istiod:15010" || m.DefaultConfig.StatusPort != 15020 {
		t.Errorf("mesh config %v: want the values of the file over the defaults", m)
	}
	r.next(func(e mesh.Event) bool { return e.Op == mesh.Synced })

	write(t, path, "trustDomain: [two.example]\n")
	bad := r.next(func(e mesh.Event) bool { return e.Problems != nil && len(e.Problems.List) > 0 })
	if p := bad.Problems.List[0]; !strings.Contains(p.Reason, "trustDomain: must be a string") || p.Origin != path {
		t.Errorf("problem %+v does not name the field and the file", p)
	}
	write(t, path, "trustDomain: three.example\n")
	r.next(func(e mesh.Event) bool { return e.Settings != nil && e.Settings.Mesh.TrustDomain == "three.example" })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestCheckNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh")
	write(t, path, "connectTimeout: soon\n")
	err := (&Source{Mesh: path}).Check()
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v", err)
	}
	if err := (&Source{Mesh: path + "-absent"}).Check(); err != nil {
		t.Errorf("a missing file is an error: %v", err)
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh")
	if m, err := (&Source{Mesh: path}).Load(nil); err != nil || m.TrustDomain != "cluster.local" {
		t.Errorf("without a file: %v, %v", m, err)
	}
	if m, err := (&Source{}).Load(nil); err != nil || m.TrustDomain != "cluster.local" {
		t.Errorf("without a path: %v, %v", m, err)
	}
	write(t, path, "configSources: [{address: 'xds://127.0.0.1:15099'}]\n")
	if m, err := (&Source{Mesh: path}).Load(nil); err != nil || len(m.ConfigSources) != 1 {
		t.Errorf("with a file: %v, %v", m, err)
	}
	write(t, path, "connectTimeout: soon\n")
	if _, err := (&Source{Mesh: path}).Load(nil); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("with a broken file: %v", err)
	}
}

// TestFieldsWithoutEffect: a field that is unknown or that Istio has retired does not prevent the
// start, and is a Problem that names the field meant or its successor.
func TestFieldsWithoutEffect(t *testing.T) {
	defer goleak.VerifyNone(t)
	path := filepath.Join(t.TempDir(), "mesh")
	write(t, path, "trustDomain: one.example\ntrustDomian: x\nmixerCheckServer: istio-policy:9091\ndefaultConfig: {parentShutdownDuration: 60s}\n")
	s := &Source{Mesh: path}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &reader{t: t, out: make(chan mesh.Batch)}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, r.out) }()
	var problems []config.Problem
	r.next(func(e mesh.Event) bool {
		if e.Problems != nil {
			problems = e.Problems.List
		}
		return e.Settings != nil && e.Settings.Mesh.TrustDomain == "one.example"
	})
	if len(problems) != 3 || problems[2].Field != "trustDomian" || !strings.Contains(problems[2].Reason, `did you mean "trustDomain"?`) ||
		problems[2].Code != code.InvalidMeshSetting || problems[0].Field != "defaultConfig.parentShutdownDuration" || problems[0].Severity != config.Warning ||
		!strings.Contains(problems[0].Reason, "terminationDrainDuration") || problems[1].Field != "mixerCheckServer" || problems[1].Origin != path {
		t.Errorf("problems %v", problems)
	}
	write(t, path, "trustDomain: one.example\n")
	r.next(func(e mesh.Event) bool { return e.Problems != nil && len(e.Problems.List) == 0 })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
