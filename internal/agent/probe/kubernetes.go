package probe

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// kubernetesProbe is a probe or lifecycle hook as the injector records it.
type kubernetesProbe struct {
	HTTPGet        *corev1.HTTPGetAction   `json:"httpGet,omitempty"`
	TCPSocket      *corev1.TCPSocketAction `json:"tcpSocket,omitempty"`
	GRPC           *corev1.GRPCAction      `json:"grpc,omitempty"`
	TimeoutSeconds int32                   `json:"timeoutSeconds,omitempty"`
}

// hookPrefix begins the paths of lifecycle hooks. As in Kubernetes, a hook may take as long as it
// needs; the kubelet bounds preStop by the grace period.
const hookPrefix = "/app-lifecycle/"

// probePaths matches the paths that the injector puts into probes: /app-health/CONTAINER/readyz,
// /app-lifecycle/CONTAINER/prestopz.
func probePaths() *regexp.Regexp {
	return regexp.MustCompile(`^/app-(health|lifecycle)/[^/]+/(livez|readyz|startupz|prestopz|poststartz)$`)
}

// ParseKubernetes parses ISTIO_KUBE_APP_PROBERS: a JSON object of probes by path, such as
// /app-health/CONTAINER/readyz. The default timeout is 1 s, and none for a hook (/app-lifecycle/).
// All invalid paths and probes are reported in one joined error, and returned nevertheless. Text
// that is no such object is an error with a nil map.
func ParseKubernetes(text string) (map[string]Probe, error) {
	var given map[string]kubernetesProbe
	if err := json.Unmarshal([]byte(text), &given); err != nil {
		return nil, fmt.Errorf("want a JSON object of probes: %w", err)
	}
	known := probePaths()
	all := make(map[string]Probe, len(given))
	var errs []error
	for path, k := range given {
		timeout := time.Second
		if strings.HasPrefix(path, hookPrefix) {
			timeout = 0
		}
		probe, err := k.toProbe(timeout)
		if err == nil && !known.MatchString(path) {
			err = errors.New("invalid path: want a path such as /app-health/CONTAINER/readyz")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("probe %q: %w", path, err))
		}
		all[path] = probe
	}
	return all, errors.Join(errs...)
}

// toProbe returns the probe, with the parameter timeout if its own is not positive. It also returns
// an error unless there is exactly one of httpGet, tcpSocket and grpc, with a valid port.
func (k kubernetesProbe) toProbe(timeout time.Duration) (Probe, error) {
	p := Probe{Timeout: secondsOr(k.TimeoutSeconds, timeout)}
	var err error
	kinds := 0
	if h := k.HTTPGet; h != nil {
		kinds++
		p.HTTP = &HTTP{Path: h.Path, Secure: h.Scheme == corev1.URISchemeHTTPS}
		p.HTTP.Port, err = parsePort(h.Port)
	}
	if t := k.TCPSocket; t != nil {
		kinds++
		p.TCP = &TCP{}
		p.TCP.Port, err = parsePort(t.Port)
	}
	if g := k.GRPC; g != nil {
		kinds++
		p.GRPC = &GRPC{}
		if g.Service != nil {
			p.GRPC.Service = *g.Service
		}
		p.GRPC.Port, err = parsePort(intstr.FromInt32(g.Port))
	}
	if kinds != 1 {
		err = errors.New("want exactly one of httpGet, tcpSocket and grpc")
	}
	return p, err
}

// parsePort returns a numeric port, also one in a string, and an error unless it is from 1 to
// 65535. Names of ports are errors: the injector has resolved them.
func parsePort(p intstr.IntOrString) (uint16, error) {
	number := p.IntValue()
	if number < 1 || number > math.MaxUint16 {
		return 0, fmt.Errorf("%q is not a port", p.String())
	}
	return uint16(number), nil
}

// secondsOr returns n seconds, or fallback if n is not positive.
func secondsOr(n int32, fallback time.Duration) time.Duration {
	if n <= 0 {
		return fallback
	}
	return time.Duration(n) * time.Second
}
