package probe

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// kubernetesProbe is what the injector writes down of a probe or hook that it has kubelet ask the agent for.
type kubernetesProbe struct {
	HTTPGet        *corev1.HTTPGetAction   `json:"httpGet,omitempty"`
	TCPSocket      *corev1.TCPSocketAction `json:"tcpSocket,omitempty"`
	GRPC           *corev1.GRPCAction      `json:"grpc,omitempty"`
	TimeoutSeconds int32                   `json:"timeoutSeconds,omitempty"`
}

// paths are those that kubelet is told to ask for: /app-health/CONTAINER/readyz, /app-lifecycle/CONTAINER/prestopz.
func paths() *regexp.Regexp {
	return regexp.MustCompile(`^/app-(health|lifecycle)/[^/]+/(livez|readyz|startupz|prestopz|poststartz)$`)
}

// ParseKubernetes reads ISTIO_KUBE_APP_PROBERS: a JSON object of probes by path.
func ParseKubernetes(text string) (map[string]Probe, error) {
	var given map[string]kubernetesProbe
	if err := json.Unmarshal([]byte(text), &given); err != nil {
		return nil, fmt.Errorf("want a JSON object of probes: %w", err)
	}
	known := paths()
	all := make(map[string]Probe, len(given))
	var errs []error
	for path, k := range given {
		probe, err := k.probe()
		if err == nil && !known.MatchString(path) {
			err = errors.New("is not a path such as /app-health/CONTAINER/readyz")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("probe %q: %w", path, err))
		}
		all[path] = probe
	}
	return all, errors.Join(errs...)
}

func (k kubernetesProbe) probe() (Probe, error) {
	p := Probe{Timeout: seconds(k.TimeoutSeconds, time.Second)}
	var err error
	kinds := 0
	if h := k.HTTPGet; h != nil {
		kinds++
		p.HTTP = &HTTP{Path: h.Path, Secure: h.Scheme == corev1.URISchemeHTTPS}
		p.HTTP.Port, err = port(h.Port)
	}
	if t := k.TCPSocket; t != nil {
		kinds++
		p.TCP = &TCP{}
		p.TCP.Port, err = port(t.Port)
	}
	if g := k.GRPC; g != nil {
		kinds++
		p.GRPC = &GRPC{}
		if g.Service != nil {
			p.GRPC.Service = *g.Service
		}
		p.GRPC.Port, err = port(intstr.FromInt32(g.Port))
	}
	if kinds != 1 {
		err = errors.New("want one of httpGet, tcpSocket and grpc")
	}
	return p, err
}

// port reads a port, which the injector has looked up if it had a name.
func port(p intstr.IntOrString) (uint16, error) {
	number := p.IntValue()
	if number < 1 || number > math.MaxUint16 {
		return 0, fmt.Errorf("%q is not a port", p.String())
	}
	return uint16(number), nil
}

func seconds(n int32, otherwise time.Duration) time.Duration {
	if n <= 0 {
		return otherwise
	}
	return time.Duration(n) * time.Second
}
