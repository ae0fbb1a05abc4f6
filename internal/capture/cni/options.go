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

// agentPorts are the ports at which agent and Envoy serve probes and scrapes. They are excluded
// from capture.
const agentPorts = "15020,15021,15090"

// defaultProxyID is the proxy's user and group if the pod does not set them or sets root. With
// TPROXY the proxy runs as root and is identified by its group.
const defaultProxyID = 1337

// annotationFlag maps an annotation to the flag of istio-iptables with the same value. fallback is
// the value without the annotation; if empty, the flag is left out.
type annotationFlag struct{ annotation, flag, fallback string }

// annotationFlags returns the flags that annotations set, and the value without the annotation, or
// "" for none. Of two with the same flag, the later one takes precedence.
func annotationFlags() []annotationFlag {
	return []annotationFlag{
		{annotation.SidecarInterceptionMode.Name, "istio-inbound-interception-mode", string(iptables.Redirect)},
		{annotation.SidecarTrafficIncludeInboundPorts.Name, "istio-inbound-ports", "*"},
		{annotation.SidecarTrafficExcludeInboundPorts.Name, "istio-local-exclude-ports", ""},
		{annotation.SidecarTrafficIncludeOutboundIPRanges.Name, "istio-service-cidr", "*"},
		{annotation.SidecarTrafficExcludeOutboundIPRanges.Name, "istio-service-exclude-cidr", ""},
		{annotation.SidecarTrafficIncludeOutboundPorts.Name, "istio-outbound-ports", ""},
		{annotation.SidecarTrafficExcludeOutboundPorts.Name, "istio-local-outbound-ports-exclude", ""},
		{annotation.SidecarTrafficExcludeInterfaces.Name, "istio-exclude-interfaces", ""},
		{annotation.SidecarTrafficKubevirtInterfaces.Name, "kube-virt-interfaces", ""},
		{annotation.IoIstioRerouteVirtualInterfaces.Name, "kube-virt-interfaces", ""}, // the newer name wins
	}
}

// captureVariables returns the variables of the proxy that affect capture. The init container has
// them too.
func captureVariables() []string {
	return []string{
		"ISTIO_META_DNS_CAPTURE", "ISTIO_DUAL_STACK", "INVALID_DROP",
		"ISTIO_OUTBOUND_OWNER_GROUPS", "ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE", "ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR",
	}
}

// captureOptions returns the options for a pod by its annotations, the user and captureVariables of
// its proxy, and listenPorts, and warnings about variables that are ignored. An error names the
// invalid annotation or variable, or the missing container. The agent's ports are excluded inbound.
// If DNS is captured, it is captured to all servers.
func captureOptions(pod *corev1.Pod) (o iptables.Options, warnings []string, err error) {
	proxy := findContainer(pod, proxyContainer)
	if proxy == nil {
		return o, nil, errors.New("the pod has no container " + proxyContainer)
	}
	lookup := func(name string) (string, bool) {
		value := envValue(proxy, name)
		return value, value != "" && slices.Contains(captureVariables(), name)
	}
	uid, gid := proxyUser(pod, proxy)
	args := append([]string{"--proxy-uid", uid, "--proxy-gid", gid}, listenPorts(pod)...)
	for _, s := range annotationFlags() {
		value, given := pod.Annotations[s.annotation]
		if !given {
			if s.fallback == "" {
				continue
			}
			value = s.fallback
		}
		arg := "--" + s.flag + "=" + value
		_, _, err := command.Options([]string{arg}, noVariables, noUsers())
		if err != nil {
			return o, nil, fmt.Errorf("annotation %s: %w", s.annotation, err)
		}
		args = append(args, arg)
	}
	if o, warnings, err = command.Options(args, lookup, noUsers()); err != nil {
		return iptables.Options{}, nil, err
	}
	ports, _, err := command.Options([]string{"--istio-local-exclude-ports", agentPorts}, noVariables, noUsers())
	if err != nil {
		return iptables.Options{}, nil, err
	}
	for _, port := range ports.ExcludeInbound {
		if !slices.Contains(o.ExcludeInbound, port) {
			o.ExcludeInbound = append(o.ExcludeInbound, port)
		}
	}
	// The pod's name servers are not known yet, so DNS to all servers is captured.
	o.CaptureAllDNS = o.RedirectDNS
	return o, warnings, nil
}

// listenPorts returns the flags -p and -z for Envoy's listen ports (MeshConfig.proxyListenPort,
// proxyInboundListenPort), for which there is no annotation. They are copied from the arguments of
// the validation container. A flag that it lacks is left out, so the result is nil without that
// container.
func listenPorts(pod *corev1.Pod) []string {
	validation := findContainer(pod, validationContainer)
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

// noVariables returns "" and false: no environment variable is set.
func noVariables(string) (string, bool) { return "", false }

// noUsers returns a user database without users, because the node's users are not the pod's.
// Lookups fail.
func noUsers() command.Users {
	none := func(name string) (uint32, error) {
		return 0, fmt.Errorf("look up %q: users of the pod are not known", name)
	}
	return command.Users{UID: none, GID: none}
}

// proxyUser returns the IDs of the user and group of the proxy's container, or, for an ID that it
// does not set, of the pod. If neither sets it, or the ID is 0, it returns defaultProxyID.
func proxyUser(pod *corev1.Pod, proxy *corev1.Container) (uid, gid string) {
	own := cmp.Or(proxy.SecurityContext, &corev1.SecurityContext{})
	ofPod := cmp.Or(pod.Spec.SecurityContext, &corev1.PodSecurityContext{})
	return proxyID(own.RunAsUser, ofPod.RunAsUser), proxyID(own.RunAsGroup, ofPod.RunAsGroup)
}

// proxyID returns own, or else ofPod. If neither is set, or the result is 0, it returns
// defaultProxyID.
func proxyID(own, ofPod *int64) string {
	if own == nil {
		own = ofPod
	}
	if own == nil || *own == 0 {
		return strconv.Itoa(defaultProxyID)
	}
	return strconv.FormatInt(*own, 10)
}
