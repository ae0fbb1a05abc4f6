package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"time"

	"github.com/vishvananda/netlink"
	vnetns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
)

// errNoNode is returned by operations that need a node.
var errNoNode = errors.New("the cluster has no node")

// Dial connects from the node to an address of the cluster: a Pod's, a Service's, a load
// balancer's. The address is a literal one: names are for Pods.
func (c *Cluster) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if c.node == nil {
		return nil, errNoNode
	}
	return c.node.dialFrom(ctx, network, address)
}

// Transport makes HTTP connections from the node. The caller closes them by CloseIdleConnections.
func (c *Cluster) Transport() *http.Transport {
	return &http.Transport{DialContext: c.Dial, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute}
}

// Expose opens an address on this machine's loopback (host:port) that forwards to one in the
// cluster while that runs: for browsers, and programs outside of its namespaces.
func (c *Cluster) Expose(address string) (string, error) {
	if c.node == nil {
		return "", errNoNode
	}
	d, err := c.node.openDoor(address)
	if err != nil {
		return "", fmt.Errorf("expose %s: %w", address, err)
	}
	c.node.mu.Lock()
	defer c.node.mu.Unlock()
	c.node.doors = append(c.node.doors, d)
	return d.Address(), nil
}

// Connect joins the nodes of two clusters by a cable, so that the Pods of each reach the Pods and
// the load balancers of the other, as on one flat network. Their addresses of Services stay their
// own. Both must have a node, and different indices.
func (c *Cluster) Connect(other *Cluster) error {
	if c.node == nil || other.node == nil {
		return errNoNode
	}
	if c.options.Index == other.options.Index {
		return fmt.Errorf("connect clusters: both have the index %d", c.options.Index)
	}
	links, err := netlink.NewHandleAt(vnetns.NsHandle(c.node.network.Fd()), unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("connect clusters: %w", err)
	}
	defer links.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr = other.cableName(), c.hardwareAddress()
	err = links.LinkAdd(&netlink.Veth{
		LinkAttrs:        attrs,
		PeerName:         c.cableName(),
		PeerHardwareAddr: other.hardwareAddress(),
		PeerNamespace:    netlink.NsFd(other.node.network.Fd()),
	})
	if err != nil {
		return fmt.Errorf("connect clusters: %w", err)
	}
	return errors.Join(c.leadTo(other), other.leadTo(c))
}

// cableName is the name of an interface that leads to the cluster, hardware the address of those by
// which it is reached.
func (c *Cluster) cableName() string { return fmt.Sprintf("cluster%d", c.options.Index) }

func (c *Cluster) hardwareAddress() net.HardwareAddr {
	return net.HardwareAddr{0xee, 0xee, 0xee, 0xee, 0, byte(c.options.Index)}
}

// leadTo routes to another cluster's addresses, by its node.
func (c *Cluster) leadTo(other *Cluster) error {
	links, err := netlink.NewHandleAt(vnetns.NsHandle(c.node.network.Fd()), unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer links.Close()
	link, err := links.LinkByName(other.cableName())
	if err != nil {
		return err
	}
	if err := links.LinkSetUp(link); err != nil {
		return err
	}
	index := link.Attrs().Index
	for i := range min(len(c.net.nodes), len(other.net.nodes)) {
		gateway, own := other.net.nodes[i].AsSlice(), c.net.nodes[i].AsSlice()
		// A neighbour that is known is not looked for: the node's address is not one of this link.
		err := links.NeighSet(
			&netlink.Neigh{
				LinkIndex:    index,
				State:        netlink.NUD_PERMANENT,
				IP:           gateway,
				HardwareAddr: other.hardwareAddress(),
			},
		)
		if err != nil {
			return fmt.Errorf("make the node of %s a neighbour: %w", other.cableName(), err)
		}
		for _, p := range []netip.Prefix{other.net.pods[i], other.net.loadBalancers[i]} {
			dst := &net.IPNet{IP: p.Masked().Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
			route := &netlink.Route{LinkIndex: index, Dst: dst, Gw: gateway, Src: own, Flags: int(netlink.FLAG_ONLINK)}
			if err := links.RouteReplace(route); err != nil {
				return fmt.Errorf("route %s: %w", p, err)
			}
		}
	}
	return nil
}

// Exec runs a command in a container of a Pod, and returns its output. An error of the command
// contains its stderr.
func (c *Cluster) Exec(ctx context.Context, namespace, pod, container string, command ...string) (string, error) {
	config := c.Config()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	options := &corev1.PodExecOptions{
		Container: container,
		Command:   command,
		Stdout:    true,
		Stderr:    true,
	}
	req := client.CoreV1().RESTClient().Post().
		Resource("pods").Namespace(namespace).Name(pod).SubResource("exec").
		VersionedParams(options, scheme.ParameterCodec)
	// A GET, for that is how a WebSocket begins.
	executor, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, req.URL().String())
	if err != nil {
		return "", err
	}
	var out, errOut bytes.Buffer
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &errOut}); err != nil {
		return out.String(), fmt.Errorf("exec %v in %s/%s: %w: %s", command, namespace, pod, err,
			bytes.TrimSpace(errOut.Bytes()))
	}
	return out.String(), nil
}

// Kubectl returns a command: kubectl with an administrator's kubeconfig, from PATH, or else built
// like the cluster's other programs.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (*exec.Cmd, error) {
	path, err := c.programs.Kubectl(ctx)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(cmd.Environ(), "KUBECONFIG="+c.Kubeconfig())
	return cmd, nil
}

// NodePID returns a process in the node's namespaces, for nsenter, or 0 without a node.
func (c *Cluster) NodePID() int {
	if c.node == nil || c.node.proxy == nil {
		return 0
	}
	return c.node.proxy.cmd.Process.Pid
}
