package inject

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// probersVariable tells the agent the probes that it answers in the application's place.
const probersVariable = "ISTIO_KUBE_APP_PROBERS"

// prober is one probe or hook as the agent is told of it. Ports are numbers.
type prober struct {
	HTTPGet        *corev1.HTTPGetAction   `json:"httpGet,omitempty"`
	TCPSocket      *corev1.TCPSocketAction `json:"tcpSocket,omitempty"`
	GRPC           *corev1.GRPCAction      `json:"grpc,omitempty"`
	TimeoutSeconds int32                   `json:"timeoutSeconds,omitempty"`
}

// rewriteProbes has the kubelet ask the agent instead of the application: with mTLS it could not ask that itself, and the proxy
// takes every TCP connection. It changes the pod and the proxy's environment.
func rewriteProbes(pod *corev1.Pod, statusPort int32, again bool) error {
	probers := map[string]*prober{}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name != proxyContainer {
				rewriteContainer(&list[i], statusPort, probers)
			}
		}
	}
	proxy := findAny(pod, proxyContainer)
	if proxy == nil || len(probers) == 0 {
		return nil
	}
	at := slices.IndexFunc(proxy.Env, func(e corev1.EnvVar) bool { return e.Name == probersVariable })
	if again && at >= 0 { // what the first injection rewrote is not to be seen any more
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

// rewriteContainer rewrites the probes and hooks of one container, and notes what they were by the path that asks for them.
func rewriteContainer(c *corev1.Container, statusPort int32, probers map[string]*prober) {
	r := rewriter{ports: map[string]int32{}, statusPort: statusPort, probers: probers}
	for _, p := range c.Ports {
		if p.Name != "" {
			r.ports[p.Name] = p.ContainerPort
		}
	}
	health := "/app-health/" + c.Name
	c.ReadinessProbe = r.probe(c.ReadinessProbe, health+"/readyz")
	c.LivenessProbe = r.probe(c.LivenessProbe, health+"/livez")
	c.StartupProbe = r.probe(c.StartupProbe, health+"/startupz")
	if c.Lifecycle != nil {
		hooks := "/app-lifecycle/" + c.Name
		c.Lifecycle = c.Lifecycle.DeepCopy()
		c.Lifecycle.PreStop = r.hook(c.Lifecycle.PreStop, hooks+"/prestopz")
		c.Lifecycle.PostStart = r.hook(c.Lifecycle.PostStart, hooks+"/poststartz")
	}
}

type rewriter struct {
	ports      map[string]int32 // of the container, by name
	statusPort int32
	probers    map[string]*prober
}

func (r rewriter) probe(p *corev1.Probe, path string) *corev1.Probe {
	if p == nil || !r.take(path, &prober{HTTPGet: p.HTTPGet, TCPSocket: p.TCPSocket, GRPC: p.GRPC, TimeoutSeconds: p.TimeoutSeconds}) {
		return p
	}
	p = p.DeepCopy()
	p.HTTPGet, p.TCPSocket, p.GRPC = r.ask(p.HTTPGet, path), nil, nil
	return p
}

func (r rewriter) hook(h *corev1.LifecycleHandler, path string) *corev1.LifecycleHandler {
	if h == nil || !r.take(path, &prober{HTTPGet: h.HTTPGet, TCPSocket: h.TCPSocket}) {
		return h
	}
	h = h.DeepCopy()
	h.HTTPGet, h.TCPSocket = r.ask(h.HTTPGet, path), nil
	return h
}

// take notes a probe for the agent. It says no to one that the agent has nothing to do with (exec), that asks it already, and to
// one whose port nobody knows.
func (r rewriter) take(path string, p *prober) bool {
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

// ask is the request to the agent. It is without TLS: the agent uses that towards the application.
func (r rewriter) ask(of *corev1.HTTPGetAction, path string) *corev1.HTTPGetAction {
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
