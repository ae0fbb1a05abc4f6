package localmesh

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/internal/diagnostics/localmesh/control"
)

// RunOptions describe a program that pilotctl run adds to a mesh.
type RunOptions struct {
	// Name is the name of the workload. If empty, it is derived from the service or the program.
	Name           string `json:"name,omitempty"`
	Namespace      string `json:"namespace"`
	ServiceAccount string `json:"serviceAccount,omitempty"`
	// Service is SERVICE:PORT of the service that the program serves, or empty.
	Service string            `json:"service,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
}

// run runs one program of a client as a workload, until the program ends, ctx ends or the mesh
// ends. It refuses a call without a program or without the three standard files.
func (s *Supervisor) run(ctx, mesh context.Context, c *control.Call) (control.Result, error) {
	var o RunOptions
	if err := json.Unmarshal(c.Spec, &o); err != nil {
		return control.Result{}, fmt.Errorf("reading the options of run: %w", err)
	}
	if len(c.Args) == 0 || len(c.Files) != 3 {
		return control.Result{}, errors.New("running a program takes its path and 3 descriptors")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(mesh, cancel)
	defer stop()
	return s.runProgram(ctx, c, o)
}

// runProgram adds a workload with the program of a call, and removes it when the program has ended.
// The result has the exit status of the program. The workload is ready when the program accepts
// connections at its ports.
func (s *Supervisor) runProgram(ctx context.Context, c *control.Call, o RunOptions) (control.Result, error) {
	w, cleanUp, err := s.addRun(c, o)
	if err != nil {
		return control.Result{}, err
	}
	defer cleanUp()
	if err := s.startNode(ctx, w); err != nil {
		return control.Result{}, err
	}
	p := w.spec.Programs[0]
	process, err := w.node.Start(netns.Command{
		Name: p.Name, Path: p.Args[0], Args: p.Args[1:], Dir: p.Dir, Env: p.Env,
		Stdin: c.Files[0], Stdout: c.Files[1], Stderr: c.Files[2],
	})
	if err != nil {
		return control.Result{}, err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		if s.awaitPorts(watching, w, p, process) == nil {
			s.setReady(w, p.Name, true)
		}
	}()
	status, err := control.Follow(ctx, c, process)
	return control.Result{Status: status}, err
}

// addRun records the workload of a call, and writes the Service if the user's files do not have it.
// The returned function removes both and stops the workload. It returns an error if the mesh has
// not started, the call is invalid (runSpec), or the Service cannot be written. Both lock s.mu.
func (s *Supervisor) addRun(c *control.Call, o RunOptions) (*workload, func(), error) {
	if !isClosed(s.started) || s.failure != nil {
		return nil, nil, errors.New("the mesh is starting")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	spec, added, err := s.runSpec(c, o)
	if err != nil {
		return nil, nil, err
	}
	if added != nil {
		text, err := added.render(s.services)
		if err != nil {
			return nil, nil, err
		}
		if err := s.config.writeText(runServiceFile(spec), text); err != nil {
			return nil, nil, err
		}
	}
	w := newWorkload(spec)
	s.workloads[spec.FullName()] = w
	return w, func() {
		s.stopWorkload(w)
		s.mu.Lock()
		delete(s.workloads, spec.FullName())
		s.mu.Unlock()
		close(w.ended)
		if added != nil {
			if err := s.config.remove(runServiceFile(spec)); err != nil {
				s.log.Error("removing a Service failed", "workload", spec.FullName(), "error", err)
			}
		}
	}, nil
}

// runServiceFile returns the path of the Service that is added for a workload.
func runServiceFile(spec WorkloadSpec) string {
	return filepath.Join("services", spec.FullName()+".json")
}

// runSpec returns the workload of a call, and the Service that must be added for it, or nil. Its
// labels are those of the Service's selector, or app without a Service, and of o. It returns an
// error if an option is malformed, or the name is taken or too long. It also does if the Service of
// the user's files has no such port or does not select the labels. s.mu must be locked.
func (s *Supervisor) runSpec(c *control.Call, o RunOptions) (WorkloadSpec, *service, error) {
	program := Program{Name: "app", Args: c.Args, Env: c.Env, Dir: c.Dir}
	spec := WorkloadSpec{Namespace: o.Namespace, ServiceAccount: o.ServiceAccount, Labels: map[string]string{}}
	base := strings.ToLower(filepath.Base(c.Args[0]))
	var added *service
	if o.Service != "" {
		name, port, err := parseServicePort(o.Service)
		if err != nil {
			return spec, nil, err
		}
		base = name
		found := s.findService(o.Namespace, name)
		if found == nil {
			added = newService(o.Namespace, name, port)
			found = added
		}
		target, err := found.targetPort(port)
		if err != nil {
			return spec, nil, err
		}
		program.Ports = []int32{target}
		maps.Copy(spec.Labels, found.Spec.Selector)
	} else {
		spec.Labels["app"] = base
	}
	maps.Copy(spec.Labels, o.Labels)
	if added == nil && o.Service != "" {
		if found := s.findService(o.Namespace, base); !found.selects(spec) {
			return spec, nil, fmt.Errorf("service %s/%s does not select the labels of --label", o.Namespace, base)
		}
	}
	spec.Programs = []Program{program}
	var err error
	if spec.Name, err = s.runName(o, base); err != nil {
		return spec, nil, err
	}
	if len(spec.FullName()) > maxName {
		return spec, nil, fmt.Errorf("the name %s has more than %d characters: --name selects another one",
			spec.FullName(), maxName)
	}
	return spec, added, nil
}

// runName returns the name of a workload: that of the options, which must be free, or a free one.
// s.mu must be locked. A free name is BASE-run-N, without characters that names must not have, or
// program-run-N if nothing remains of BASE.
func (s *Supervisor) runName(o RunOptions, base string) (string, error) {
	taken := func(name string) bool { return s.workloads[name+"."+o.Namespace] != nil }
	if o.Name != "" {
		if wrong := validation.IsDNS1123Subdomain(o.Name); len(wrong) > 0 {
			return "", fmt.Errorf("--name %q: %s", o.Name, strings.Join(wrong, "; "))
		}
		if taken(o.Name) {
			return "", fmt.Errorf("--name %s: the workload %s.%s exists already", o.Name, o.Name, o.Namespace)
		}
		return o.Name, nil
	}
	base = strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, base), "-")
	base = cmp.Or(base, "program")
	for i := 1; ; i++ {
		if name := fmt.Sprintf("%s-run-%d", base, i); !taken(name) {
			return name, nil
		}
	}
}

// findService returns a Service of the user's files, or nil. s.mu must be locked.
func (s *Supervisor) findService(namespace, name string) *service {
	return s.manifests.services[namespace+"/"+name]
}

// parseServicePort parses SERVICE:PORT. The name must be valid for a Service and the port from 1 to
// 65535.
func parseServicePort(text string) (name string, port int32, err error) {
	name, number, found := strings.Cut(text, ":")
	n, err := strconv.ParseUint(number, 10, 16)
	if !found || err != nil || n == 0 || len(validation.IsDNS1035Label(name)) > 0 {
		return "", 0, fmt.Errorf("--service %q: want SERVICE:PORT, like reviews:9080", text)
	}
	return name, int32(n), nil
}

// newService returns a Service with one port, for workloads with the label app.
func newService(namespace, name string, port int32) *service {
	return &service{Service: corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": name},
			Ports:    []corev1.ServicePort{{Name: "http", Port: port, TargetPort: intstr.FromInt32(port)}},
		},
	}}
}

// targetPort returns the port at which workloads serve a port of the Service, or an error if the
// Service does not have that port. A target port that is 0 or not a number is the port itself.
func (s *service) targetPort(port int32) (int32, error) {
	var ports []string
	for _, p := range s.Spec.Ports {
		if p.Port != port {
			ports = append(ports, strconv.Itoa(int(p.Port)))
			continue
		}
		if p.TargetPort.Type == intstr.Int && p.TargetPort.IntVal > 0 {
			return p.TargetPort.IntVal, nil
		}
		return port, nil
	}
	return 0, fmt.Errorf("service %s/%s has no port %d; it has %s", s.Namespace, s.Name, port,
		strings.Join(ports, ", "))
}
