package cni

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"istio.io/api/annotation"

	"github.com/meshpilot/meshpilot/internal/capture/iptables"
	"github.com/meshpilot/meshpilot/internal/capture/iptables/command"
)

// agentPorts are those at which the agent and Envoy answer probes and scrapes themselves.
const agentPorts = "15020,15021,15090"

// defaultProxyID is the proxy's user and group where the pod gives it none, or root: with TPROXY the proxy is root, and known by
// its group.
const defaultProxyID = 1337

// setting is an annotation, the flag of istio-iptables that it is the value of, and the value without the annotation.
type setting struct{ annotation, flag, without string }

func settings() []setting {
	return []setting{
		{annotation.SidecarInterceptionMode.Name, "istio-inbound-interception-mode", string(iptables.Redirect)},
		{annotation.SidecarTrafficIncludeInboundPorts.Name, "istio-inbound-ports", "*"},
		{annotation.SidecarTrafficExcludeInboundPorts.Name, "istio-local-exclude-ports", ""},
		{annotation.SidecarTrafficIncludeOutboundIPRanges.Name, "istio-service-cidr", "*"},
		{annotation.SidecarTrafficExcludeOutboundIPRanges.Name, "istio-service-exclude-cidr", ""},
		{annotation.SidecarTrafficIncludeOutboundPorts.Name, "istio-outbound-ports", ""},
		{annotation.SidecarTrafficExcludeOutboundPorts.Name, "istio-local-outbound-ports-exclude", ""},
		{annotation.SidecarTrafficExcludeInterfaces.Name, "istio-exclude-interfaces", ""},
		{annotation.SidecarTrafficKubevirtInterfaces.Name, "kube-virt-interfaces", ""},
		{annotation.IoIstioRerouteVirtualInterfaces.Name, "kube-virt-interfaces", ""}, // the newer name, so it comes last
	}
}

// variables are those of the proxy that the init container, which has them too, would look at.
func variables() []string {
	return []string{
		"ISTIO_META_DNS_CAPTURE", "ISTIO_DUAL_STACK", "INVALID_DROP",
		"ISTIO_OUTBOUND_OWNER_GROUPS", "ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE", "ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR",
	}
}

// captureOptions are what the pod's annotations and its proxy ask for. The error names the annotation that cannot be honoured.
func captureOptions(pod *corev1.Pod) (iptables.Options, error) {
	proxy := container(pod, proxyContainer)
	if proxy == nil {
		return iptables.Options{}, errors.New("the pod has no container " + proxyContainer)
	}
	lookup := func(name string) (string, bool) {
		value := variable(proxy, name)
		return value, value != "" && slices.Contains(variables(), name)
	}
	uid, gid := owner(pod, proxy)
	args := append([]string{"--proxy-uid", uid, "--proxy-gid", gid}, listenPorts(pod)...)
	for _, s := range settings() {
		value, given := pod.Annotations[s.annotation]
		if !given {
			if s.without == "" {
				continue
			}
			value = s.without
		}
		arg := "--" + s.flag + "=" + value
		if _, err := command.Options([]string{arg}, func(string) (string, bool) { return "", false }, nobody()); err != nil {
			return iptables.Options{}, fmt.Errorf("annotation %s: %w", s.annotation, err)
		}
		args = append(args, arg)
	}
	o, err := command.Options(args, lookup, nobody())
	if err != nil {
		return iptables.Options{}, err
	}
	ports, err := command.Options([]string{"--istio-local-exclude-ports", agentPorts}, func(string) (string, bool) { return "", false }, nobody())
	if err != nil {
		return iptables.Options{}, err
	}
	for _, port := range ports.ExcludeInbound {
		if !slices.Contains(o.ExcludeInbound, port) {
			o.ExcludeInbound = append(o.ExcludeInbound, port)
		}
	}
	// Which name servers the pod is going to have nobody knows yet.
	o.CaptureAllDNS = o.RedirectDNS
	return o, nil
}

// listenPorts are the flags for Envoy's ports, of which there is no annotation: the container that checks the capture is told them
// (MeshConfig.proxyListenPort, proxyInboundListenPort).
func listenPorts(pod *corev1.Pod) []string {
	validation := container(pod, validationContainer)
	if validation == nil {
		return nil
	}
	var args []string
	for _, flag := range []string{"-p", "-z"} {
		if i := slices.Index(validation.Args, flag); i >= 0 && i+1 < len(validation.Args) {
			args = append(args, flag, validation.Args[i+1])
		}
	}
	return args
}

// nobody is a user database without users: those of the node are not the pod's.
func nobody() command.Users {
	none := func(name string) (uint32, error) {
		return 0, fmt.Errorf("looking up %q: the pod's users are not known", name)
	}
	return command.Users{UID: none, GID: none}
}

// owner is the proxy's user and group.
func owner(pod *corev1.Pod, proxy *corev1.Container) (uid, gid string) {
	own, ofPod := cmp.Or(proxy.SecurityContext, &corev1.SecurityContext{}), cmp.Or(pod.Spec.SecurityContext, &corev1.PodSecurityContext{})
	return proxyID(own.RunAsUser, ofPod.RunAsUser), proxyID(own.RunAsGroup, ofPod.RunAsGroup)
}

func proxyID(own, ofPod *int64) string {
	if own == nil {
		own = ofPod
	}
	if own == nil || *own == 0 {
		return strconv.Itoa(defaultProxyID)
	}
	return strconv.FormatInt(*own, 10)
}
