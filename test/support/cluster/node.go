package cluster

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/meshpilot/meshpilot/test/support/osthread"
	"github.com/meshpilot/meshpilot/test/support/program"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// nodeName is the name of the one Node.
const nodeName = "node"

// node is where Pods run: a network namespace and a mount namespace without names, and the
// processes in them.
type node struct {
	net     network
	thread  *osthread.Thread
	network *os.File           // its network namespace
	door    *serving.Forwarder // from loopback to the API server

	kubelet, proxy *process

	mu    sync.Mutex
	doors []*serving.Forwarder // that tests have opened
}

var errNotRoot = errors.New("a cluster with a node needs root: for network namespaces, and users of containers")

func newNode(n network) (*node, error) {
	if os.Geteuid() != 0 {
		return nil, errNotRoot
	}
	made := &node{net: n}
	var err error
	made.thread, err = osthread.New(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("make the node's namespaces: %w", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("make the node's mounts private: %w", err)
		}
		if err := n.setUpNode(); err != nil {
			return err
		}
		made.network, err = osthread.Current()
		return err
	})
	return made, err
}

// setUpNode assigns the node's addresses to the network namespace that it runs in, and adds a route
// to Services.
func (n network) setUpNode() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find the node's loopback: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("set the node's loopback up: %w", err)
	}
	for i, ip := range n.nodes {
		addr := &netlink.Addr{
			IPNet: &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(ip.BitLen(), ip.BitLen())},
			Flags: unix.IFA_F_NODAD,
		}
		if err := netlink.AddrAdd(lo, addr); err != nil {
			return fmt.Errorf("add the node's address %s: %w", ip, err)
		}
		// Where it leads does not matter: kube-proxy translates the destination. But without a
		// route nothing is sent.
		services := n.services[i]
		route := &netlink.Route{LinkIndex: lo.Attrs().Index, Src: ip.AsSlice(), Dst: &net.IPNet{
			IP: services.Addr().AsSlice(), Mask: net.CIDRMask(services.Bits(), ip.BitLen()),
		}}
		if err := netlink.RouteAdd(route); err != nil {
			return fmt.Errorf("route %s: %w", services, err)
		}
	}
	return nil
}

// reservePorts reserves ports in the node's network, and opens the door to the API server's.
func (n *node) reservePorts() (p *ports, err error) {
	err = n.thread.Do(func() error {
		p, err = reservePorts()
		return err
	})
	if err != nil {
		return nil, err
	}
	n.door, err = n.openDoor(p.api.portAddress())
	return p, err
}

// openDoor listens on a port of this machine's loopback and carries connections to an address in the node's
// network.
func (n *node) openDoor(address string) (*serving.Forwarder, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return serving.Forward(listener, func(ctx context.Context) (net.Conn, error) {
		return n.dialFrom(ctx, "tcp", address)
	}), nil
}

// dialFrom connects from the node. The address is a literal one.
func (n *node) dialFrom(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = osthread.Inside(n.network, func() (err error) {
		conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// startNode starts the kubelet and kube-proxy, and has CoreDNS deployed.
func (c *Cluster) startNode(ctx context.Context) error {
	if err := c.startKubelet(ctx); err != nil {
		return err
	}
	if err := c.startProxy(ctx); err != nil {
		return err
	}
	return c.Apply(ctx, strings.ReplaceAll(coreDNS, "${DNS}", c.net.dnsAddress().String()))
}

//go:embed coredns.yaml
var coreDNS string

const kubeletPort = "10250"

func (c *Cluster) startKubelet(ctx context.Context) error {
	path, err := program.Build(ctx, "test/support/cluster/cmd/meshkubelet")
	if err != nil {
		return err
	}
	version, err := c.programs.KubernetesVersion()
	if err != nil {
		return err
	}
	images, err := c.baseImages(ctx)
	if err != nil {
		return err
	}
	if err := append(c.options.Images, images...).Write(c.filePath("images.yaml")); err != nil {
		return err
	}
	config, n := *c.admin, c.net
	config.Host = "https://" + c.innerAddress()
	if err := WriteKubeconfig(c.filePath("kubelet.kubeconfig"), &config); err != nil {
		return err
	}
	args := []string{
		"--kubeconfig=" + c.filePath(
			"kubelet.kubeconfig",
		),
		"--images=" + c.filePath("images.yaml"),
		"--root-dir=" + c.filePath("kubelet"),
		"--node-name=" + nodeName,
		"--version=v" + version,
		"--node-ip=" + strings.Join(toTexts(n.nodes), ","),
		"--pod-cidr=" + strings.Join(toTexts(n.pods), ","),
		"--load-balancer-cidr=" + strings.Join(
			toTexts(n.loadBalancers),
			",",
		),
		"--cluster-dns=" + n.dnsAddress().String(),
		"--api-service=" + net.JoinHostPort(n.apiService().String(), "443"),
		"--listen=" + net.JoinHostPort("", kubeletPort),
		"--tls-cert-file=" + c.keys.filePath(
			nodeName+".crt",
		),
		"--tls-private-key-file=" + c.keys.filePath(nodeName+".key"),
	}
	for k, v := range c.options.NodeLabels {
		args = append(args, "--node-labels="+k+"="+v)
	}
	c.node.kubelet, err = startProcess(c.thread, "kubelet", path, c.filePath("logs"), args...)
	return err
}

func (c *Cluster) startProxy(ctx context.Context) error {
	path, err := c.programs.Path(ctx, "kube-proxy")
	if err != nil {
		return err
	}
	if err := WriteKubeconfig(
		c.filePath("kube-proxy.kubeconfig"),
		c.keys.userConfig(c.innerAddress(), "system:kube-proxy"),
	); err != nil {
		return err
	}
	c.node.proxy, err = startProcess(c.thread, "kube-proxy", path, c.filePath("logs"),
		"--kubeconfig="+c.filePath("kube-proxy.kubeconfig"), "--proxy-mode=iptables", "--hostname-override="+nodeName,
		"--cluster-cidr="+strings.Join(toTexts(c.net.pods), ","), "--iptables-min-sync-period=100ms",
		// The following settings would change the machine's kernel, not the namespace.
		"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s", "--conntrack-tcp-timeout-close-wait=0s",
		"--healthz-bind-address=127.0.0.1:10256", "--metrics-bind-address=127.0.0.1:10249")
	return err
}

// awaitNode waits until names can be resolved, which takes all of a node.
func (c *Cluster) awaitNode(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return err
	}
	return awaitCondition(
		ctx,
		"the node",
		[]*process{c.node.kubelet, c.node.proxy, c.controllers, c.apiServer},
		func(ctx context.Context) error {
			d, err := client.AppsV1().Deployments(metav1.NamespaceSystem).Get(ctx, "coredns", metav1.GetOptions{})
			if err != nil {
				return err
			}
			return isAvailable(d)
		},
	)
}

func isAvailable(d *appsv1.Deployment) error {
	for _, condition := range d.Status.Conditions {
		if condition.Type == appsv1.DeploymentAvailable && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("deployment %s/%s is not available", d.Namespace, d.Name)
}

// stopKubelet ends what runs on the node: the kubelet ends its containers.
func (n *node) stopKubelet() error {
	n.mu.Lock()
	doors := n.doors
	n.doors = nil
	n.mu.Unlock()
	var errs []error
	for _, d := range doors {
		errs = append(errs, d.Close())
	}
	n.kubelet.stopWithin(stopPatience)
	n.proxy.killNow()
	return errors.Join(errs...)
}

// closeNetwork releases the node's network, which ends with its last process.
func (n *node) closeNetwork() error {
	var errs []error
	if n.door != nil {
		errs = append(errs, n.door.Close())
	}
	if n.network != nil {
		errs = append(errs, n.network.Close())
	}
	return errors.Join(errs...)
}

// RestartKubelet stops the kubelet, with all containers, and starts it again: which corresponds to
// a reboot of the node.
func (c *Cluster) RestartKubelet(ctx context.Context) error {
	c.node.kubelet.stopWithin(stopPatience)
	return c.startKubelet(ctx)
}
