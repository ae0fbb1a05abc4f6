package localmesh

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// service is a Service of the user's files.
type service struct {
	corev1.Service
	document document
}

// parseService decodes a Service. An unknown field is an error. A missing name is an error, too; a
// missing namespace is "default".
func parseService(d document) (*service, error) {
	s := &service{document: d}
	if err := decodeStrictly(d.text, &s.Service); err != nil {
		return nil, err
	}
	if s.Name == "" {
		return nil, errors.New("metadata.name is required")
	}
	s.Namespace = d.namespace()
	return s, nil
}

// placeholderMark begins the line in a file that is replaced by a Service.
const placeholderMark = "#service "

// placeholder returns the text that replaces the Service in its file until all addresses are known.
// It has the same number of lines.
func (s *service) placeholder() string {
	head := separator(s.document.text)
	lines := max(strings.Count(s.document.text, "\n")-strings.Count(head, "\n")-1, 0)
	return head + placeholderMark + s.Namespace + "/" + s.Name + "\n" +
		strings.Repeat("#\n", lines) + unfinished(s.document.text)
}

// selects reports whether the Service selects a workload: in its own namespace, by all labels of
// its selector. A Service without a selector selects none.
func (s *service) selects(w WorkloadSpec) bool {
	return s.Namespace == w.Namespace && len(s.Spec.Selector) > 0 &&
		labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(w.Labels))
}

// selectsHeadless reports whether the Service is headless and has a selector. A headless Service
// does not select WorkloadEntries, which the workloads of the mesh are here.
func (s *service) selectsHeadless() bool {
	return len(s.Spec.Selector) > 0 && s.Spec.ClusterIP == corev1.ClusterIPNone
}

// resolveTargetPorts replaces the names of ports of containers in Services by their numbers. A name
// that no selected workload has becomes a problem.
func (m *manifests) resolveTargetPorts() {
	for _, s := range m.services {
		for i := range s.Spec.Ports {
			p := &s.Spec.Ports[i]
			if p.TargetPort.Type != intstr.String || p.TargetPort.StrVal == "" {
				continue
			}
			number := m.portNamed(s, p.TargetPort.StrVal)
			if number == 0 {
				m.addProblem("%s: spec.ports[%d].targetPort: no container of a selected Deployment has a port %q",
					s.document.title(), i, p.TargetPort.StrVal)
				continue
			}
			p.TargetPort = intstr.FromInt32(number)
		}
	}
}

// portNamed returns the number of a named port of the first workload that a Service selects and
// that has one, or 0.
func (m *manifests) portNamed(s *service, name string) int32 {
	for _, w := range m.workloads {
		if number, ok := w.portNames[name]; ok && s.selects(w) {
			return number
		}
	}
	return 0
}

// render returns the Service as one line. If it needs a cluster IP, it assigns one from the pool,
// and stores that in s. It returns an error if the pool is exhausted.
func (s *service) render(pool *addressPool) (string, error) {
	if api.NeedsClusterIP(&s.Spec) {
		addr, err := pool.assign(s.Namespace + "/" + s.Name)
		if err != nil {
			return "", err
		}
		s.Spec.ClusterIP = addr.String()
		s.Spec.ClusterIPs = []string{addr.String()}
	}
	s.APIVersion, s.Kind = "v1", "Service"
	text, err := json.Marshal(s.Service)
	if err != nil {
		return "", fmt.Errorf("%s: %w", s.document.title(), err)
	}
	return string(text) + "\n", nil
}

// renderFiles returns the files for the control plane by path, with the Services in them. It
// reserves the cluster IPs that Services have in the pool before it assigns others, which it stores
// in m.services. It returns an error if the pool is exhausted.
func (m *manifests) renderFiles(pool *addressPool) (map[string]string, error) {
	for _, s := range m.services {
		for _, text := range append([]string{s.Spec.ClusterIP}, s.Spec.ClusterIPs...) {
			if addr, err := netip.ParseAddr(text); err == nil {
				pool.reserve(addr)
			}
		}
	}
	files := map[string]string{}
	for path, text := range m.files {
		var out strings.Builder
		for line := range strings.Lines(text) {
			key, ok := strings.CutPrefix(line, placeholderMark)
			if !ok {
				out.WriteString(line)
				continue
			}
			rendered, err := m.services[strings.TrimSpace(key)].render(pool)
			if err != nil {
				return nil, err
			}
			out.WriteString(rendered)
		}
		files[path] = out.String()
	}
	return files, nil
}
