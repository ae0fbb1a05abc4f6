package mesh

import (
	"encoding/json"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/base/netns"
)

const (
	// proxyUID is whom traffic is let pass of: the sidecar's own. Istio's choice.
	proxyUID = 1337
	// proxyMark takes its place where no process can be that user, see capture.
	proxyMark = 1337

	// readyURL answers 200 when Envoy has its configuration.
	readyURL = "http://127.0.0.1:15021/healthz/ready"
)

// sidecar is what all sidecars of a mesh have in common.
type sidecar struct {
	agentPath, capturePath, envoy string // programs
	authority                     authority
	domain                        string   // cluster.local
	hasUID                        bool     // whether processes can run as proxyUID
	hasTables                     bool     // whether there is an iptables to call
	env                           []string // more variables for the agent
}

// capture is the command that redirects a pod's traffic to its sidecar.
//
// In a user namespace only one user exists, and Envoy cannot be told from the app by its uid: its sockets carry a mark.
func (s *sidecar) capture() netns.Command {
	args := []string{
		"-p", "15001", "-z", "15006", "-u", strconv.Itoa(proxyUID), "-m", "REDIRECT",
		"-i", "*", "-x", "", "-b", "*", "-d", "15090,15021,15020",
	}
	if !s.hasUID {
		args = append(args, "--proxy-mark", strconv.Itoa(proxyMark))
	}
	if !s.hasUID || !s.hasTables {
		args = append(args, "--native-nftables")
	}
	return netns.Command{Name: "capture", Path: s.capturePath, Args: args}
}

// agent is the command that runs a pod's sidecar, with its files in dir.
func (s *sidecar) agent(pod *corev1.Pod, dir string) (netns.Command, error) {
	proxyConfig, err := json.Marshal(map[string]any{
		"discoveryAddress": controlPlaneHost + ":15012",
		"binaryPath":       s.envoy,
		"configPath":       dir,
		"concurrency":      1,
		// Nothing is under way any more when a mesh is closed.
		"terminationDrainDuration": "1s",
	})
	if err != nil {
		return netns.Command{}, fmt.Errorf("rendering the proxy configuration of %s: %w", pod.Name, err)
	}
	labels, err := json.Marshal(pod.Labels)
	if err != nil {
		return netns.Command{}, fmt.Errorf("rendering the labels of %s: %w", pod.Name, err)
	}
	probers, err := appProbers(pod)
	if err != nil {
		return netns.Command{}, err
	}
	command := netns.Command{
		Name: "agent",
		Path: s.agentPath,
		Args: []string{"proxy", proxyType(pod), "--domain", pod.Namespace + ".svc." + s.domain},
		Dir:  dir,
		Env: []string{
			"POD_NAME=" + pod.Name,
			"POD_NAMESPACE=" + pod.Namespace,
			"INSTANCE_IP=" + pod.Status.PodIP,
			"SERVICE_ACCOUNT=" + serviceAccount(pod),
			"PROXY_CONFIG=" + string(proxyConfig),
			"TRUST_DOMAIN=" + s.domain,
			"ISTIO_METAJSON_LABELS=" + string(labels),
			"ISTIO_KUBE_APP_PROBERS=" + probers,
			"ISTIO_META_CLUSTER_ID=Kubernetes",
			"ISTIO_META_MESH_ID=" + s.domain,
			"ISTIO_META_WORKLOAD_NAME=" + pod.Name,
			"ISTIO_META_NODE_NAME=" + pod.Spec.NodeName,
			"ISTIO_META_INTERCEPTION_MODE=REDIRECT",
		},
	}
	if s.hasUID {
		command.UID = proxyUID
	} else {
		command.Env = append(command.Env, "MESHPILOT_SOCKET_MARK="+strconv.Itoa(proxyMark))
	}
	command.Env = append(command.Env, s.env...)
	return command, nil
}

// probePath is the path at which the agent answers whether a container of a pod is healthy.
func probePath(container string) string { return "/app-health/" + container + "/readyz" }

// appProbers returns what the injector would write for the pod: the agent forwards probes at its own
// port, which needs no mutual TLS, to /health of each container with a port.
func appProbers(pod *corev1.Pod) (string, error) {
	probers := map[string]any{}
	for _, c := range pod.Spec.Containers {
		if len(c.Ports) > 0 {
			get := map[string]any{"path": "/health", "port": c.Ports[0].ContainerPort}
			probers[probePath(c.Name)] = map[string]any{"httpGet": get}
		}
	}
	text, err := json.Marshal(probers)
	if err != nil {
		return "", fmt.Errorf("rendering the probes of %s: %w", pod.Name, err)
	}
	return string(text), nil
}

// isGateway says that a pod runs a proxy of its own, as Istio's injection is told it (annotation inject.istio.io/templates).
func isGateway(pod *corev1.Pod) bool {
	return pod.Annotations["inject.istio.io/templates"] == "gateway"
}

func proxyType(pod *corev1.Pod) string {
	if isGateway(pod) {
		return "router"
	}
	return "sidecar"
}
