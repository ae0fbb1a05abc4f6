package inject

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// probersVariable passes the rewritten probes to the agent.
const probersVariable = "ISTIO_KUBE_APP_PROBERS"

// prober is one probe or hook for the agent. Ports are numbers.
type prober struct {
	HTTPGet        *corev1.HTTPGetAction   `json:"httpGet,omitempty"`
	TCPSocket      *corev1.TCPSocketAction `json:"tcpSocket,omitempty"`
	GRPC           *corev1.GRPCAction      `json:"grpc,omitempty"`
	TimeoutSeconds int32                   `json:"timeoutSeconds,omitempty"`
}

// rewriteProbes redirects the kubelet's probes and hooks in all containers except the proxy to the
// agent. The kubelet cannot probe the application itself under mTLS, and the proxy accepts every
// TCP connection. If there is a proxy and any probe was rewritten, probersVariable of the proxy is
// set. With again, the earlier probers in it are kept, and override new ones of the same path; it
// returns an error if they are invalid.
func rewriteProbes(pod *corev1.Pod, statusPort int32, again bool) error {
	probers := map[string]*prober{}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name != proxyContainer {
				rewriteContainer(&list[i], statusPort, probers)
			}
		}
	}
	proxy := findInPod(pod, proxyContainer)
	if proxy == nil || len(probers) == 0 {
		return nil
	}
	at := slices.IndexFunc(proxy.Env, func(e corev1.EnvVar) bool { return e.Name == probersVariable })
	if again && at >= 0 { // probes rewritten by the earlier injection
		var earlier map[string]*prober
		if err := json.Unmarshal([]byte(proxy.Env[at].Value), &earlier); err != nil {
			return fmt.Errorf("variable %s of the container %s: %w", probersVariable, proxyContainer, err)
		}
		maps.Copy(probers, earlier)
	}
	text, err := json.Marshal(probers)
	if err != nil {
		return err
	}
	v := corev1.EnvVar{Name: probersVariable, Value: string(text)}
	if again && at >= 0 {
		proxy.Env[at] = v
	} else {
		proxy.Env = append(proxy.Env, v)
	}
	return nil
}

// rewriteContainer rewrites the probes and lifecycle hooks of one container, and adds the original
// ones to probers by their new path. Paths are below /app-health/NAME and /app-lifecycle/NAME.
// Names of ports are looked up in this container.
func rewriteContainer(c *corev1.Container, statusPort int32, probers map[string]*prober) {
	r := rewriter{ports: map[string]int32{}, statusPort: statusPort, probers: probers}
	for _, p := range c.Ports {
		if p.Name != "" {
			r.ports[p.Name] = p.ContainerPort
		}
	}
	health := "/app-health/" + c.Name
	c.ReadinessProbe = r.rewriteProbe(c.ReadinessProbe, health+"/readyz")
	c.LivenessProbe = r.rewriteProbe(c.LivenessProbe, health+"/livez")
	c.StartupProbe = r.rewriteProbe(c.StartupProbe, health+"/startupz")
	if c.Lifecycle != nil {
		hooks := "/app-lifecycle/" + c.Name
		c.Lifecycle = c.Lifecycle.DeepCopy()
		c.Lifecycle.PreStop = r.rewriteHook(c.Lifecycle.PreStop, hooks+"/prestopz")
		c.Lifecycle.PostStart = r.rewriteHook(c.Lifecycle.PostStart, hooks+"/poststartz")
	}
}

type rewriter struct {
	ports      map[string]int32 // of the container, by name
	statusPort int32
	probers    map[string]*prober
}

// rewriteProbe returns a copy of a probe that requests path from the agent, and records the
// original. It returns p itself if that must not be rewritten (recordProbe) or is nil.
func (r rewriter) rewriteProbe(p *corev1.Probe, path string) *corev1.Probe {
	if p == nil ||
		!r.recordProbe(
			path,
			&prober{HTTPGet: p.HTTPGet, TCPSocket: p.TCPSocket, GRPC: p.GRPC, TimeoutSeconds: p.TimeoutSeconds},
		) {
		return p
	}
	p = p.DeepCopy()
	p.HTTPGet, p.TCPSocket, p.GRPC = r.agentAction(p.HTTPGet, path), nil, nil
	return p
}

// rewriteHook returns a copy of a lifecycle hook that requests path from the agent, and records the
// original. It returns h itself if that must not be rewritten (recordProbe) or is nil.
func (r rewriter) rewriteHook(h *corev1.LifecycleHandler, path string) *corev1.LifecycleHandler {
	if h == nil || !r.recordProbe(path, &prober{HTTPGet: h.HTTPGet, TCPSocket: h.TCPSocket}) {
		return h
	}
	h = h.DeepCopy()
	h.HTTPGet, h.TCPSocket = r.agentAction(h.HTTPGet, path), nil
	return h
}

// recordProbe records a copy of a probe under path for the agent, with a numeric port and only its
// first handler. It returns false, and records nothing, for probes without an HTTP, TCP or gRPC
// handler. It also does so for the agent's port number and an unknown port name, except that a gRPC
// probe is recorded with any port.
func (r rewriter) recordProbe(path string, p *prober) bool {
	var port *intstr.IntOrString
	switch {
	case p.HTTPGet != nil:
		p.HTTPGet = p.HTTPGet.DeepCopy()
		port, p.TCPSocket, p.GRPC = &p.HTTPGet.Port, nil, nil
	case p.TCPSocket != nil:
		p.TCPSocket = p.TCPSocket.DeepCopy()
		port, p.GRPC = &p.TCPSocket.Port, nil
	case p.GRPC != nil:
		r.probers[path] = p
		return true
	default:
		return false
	}
	if port.Type == intstr.String {
		number, known := r.ports[port.StrVal]
		if !known {
			return false
		}
		*port = intstr.FromInt32(number)
	} else if port.IntVal == r.statusPort {
		return false
	}
	r.probers[path] = p
	return true
}

// agentAction returns the HTTP request for path to the agent, with the headers and host of the
// original if there is one. It uses plain HTTP; the agent uses TLS to the application.
func (r rewriter) agentAction(of *corev1.HTTPGetAction, path string) *corev1.HTTPGetAction {
	a := &corev1.HTTPGetAction{}
	if of != nil {
		a = of.DeepCopy()
	}
	a.Port, a.Path = intstr.FromInt32(r.statusPort), path
	if a.Scheme == corev1.URISchemeHTTPS {
		a.Scheme = corev1.URISchemeHTTP
	}
	return a
}
