package dataplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

const (
	// proxyMark is the mark of the connections of Envoys, which are not captured.
	proxyMark = 1337
	// captureTime bounds the installation of the rules of capture.
	captureTime = time.Minute
)

// endpoint is an Envoy of a pair.
type endpoint struct {
	node     *netns.Node
	process  *netns.Process
	identity *identity
}

// pair is a client and a server with their sidecars, and the application beside the server.
type pair struct {
	plane          *plane
	client, server endpoint
	application    *application
}

// addressesOf returns the addresses of the i-th pair of a network.
func addressesOf(i int) (client, server netip.Addr) {
	return netip.AddrFrom4([4]byte{10, 66, 1, byte(2 * i)}), netip.AddrFrom4([4]byte{10, 66, 1, byte(2*i + 1)})
}

// startPair starts the i-th pair on the configuration of a control plane, and waits until it is
// ready.
func (o Options) startPair(ctx context.Context, network *netns.Network, i int, p *plane) (*pair, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	x := &pair{plane: p}
	root := pki.Authority("dataplane")
	client, server := addressesOf(i)
	err := o.startEndpoint(ctx, network, sidecar{name: "client", address: client}, p, root, &x.client)
	if err == nil {
		err = o.startEndpoint(ctx, network, sidecar{name: serverName, address: server}, p, root, &x.server)
	}
	if err == nil {
		x.application, err = startApplication(x.server.node)
	}
	if err == nil {
		err = x.client.process.Await(ctx, "an answer through both sidecars", x.checkCall)
	}
	if err != nil {
		return nil, errors.Join(err, x.close())
	}
	return x, nil
}

// checkCall returns an error unless a request is answered, and comes with the client's certificate exactly
// if it should.
func (x *pair) checkCall(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	client := HTTP1.newTransport(x.client.node)
	defer client.CloseIdleConnections()
	t := HTTP1.target()
	request, err := t.Request()
	if err != nil {
		return err
	}
	answer, err := client.RoundTrip(request.WithContext(ctx))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	identified := answer.Header.Get(identifiedHeader) != ""
	if wanted := !x.plane.variant.Features.Plaintext; answer.StatusCode != http.StatusOK || identified != wanted {
		return fmt.Errorf("%s, with the client's certificate: %t, want %t", answer.Status, identified, wanted)
	}
	return nil
}

// startEndpoint starts a sidecar in a network node of its own, whose traffic it captures.
func (o Options) startEndpoint(
	ctx context.Context, network *netns.Network, s sidecar, p *plane, root *pki.Pair, e *endpoint,
) (err error) {
	name := fmt.Sprintf("%s-%s", filepath.Base(p.settings.Dir), s.name)
	if e.node, err = network.AddNode(netns.NodeOptions{Name: name, Addrs: []netip.Addr{s.address}}); err != nil {
		return err
	}
	s.discovery, s.identity, s.mark = p.socket, filepath.Join(e.node.Dir(), "sds"), proxyMark
	if e.identity, err = serveIdentity(s.identity, s.name, root); err != nil {
		return err
	}
	if err := o.capture(ctx, e.node); err != nil {
		return err
	}
	b, err := s.newBootstrap()
	if err != nil {
		return err
	}
	if e.process, err = o.start(e.node, b); err != nil {
		return err
	}
	return awaitReady(ctx, e.process)
}

// capture redirects the traffic of a node to its sidecar, like the init container of a pod.
func (o Options) capture(ctx context.Context, n *netns.Node) error {
	ctx, cancel := context.WithTimeout(ctx, captureTime)
	defer cancel()
	p, err := n.Start(netns.Command{Path: o.Capture, Args: []string{
		"-p", "15001", "-z", "15006", "-m", "REDIRECT", "-i", "*", "-x", "", "-b", "*", "-d", "15090,15021,15020",
		"--proxy-mark", strconv.Itoa(proxyMark), "--native-nftables",
	}})
	if err != nil {
		return err
	}
	return p.Wait(ctx)
}

// writeDumps writes the configurations of both Envoys as JSON beside the log of the control plane.
func (x *pair) writeDumps(ctx context.Context) error {
	for name, e := range map[string]endpoint{"client": x.client, "server": x.server} {
		client := e.node.Client(pageTime)
		var dump json.RawMessage
		err := getJSON(ctx, client, "/config_dump?include_eds", &dump)
		client.CloseIdleConnections()
		if err == nil {
			err = os.WriteFile(filepath.Join(x.plane.settings.Dir, name+".json"), dump, 0o644)
		}
		if err != nil {
			return fmt.Errorf("configuration of the %s's Envoy: %w", name, err)
		}
	}
	return nil
}

// close ends the pair and removes its nodes with their logs.
func (x *pair) close() error {
	var errs []error
	if x.application != nil {
		errs = append(errs, x.application.close())
	}
	for _, e := range []endpoint{x.client, x.server} {
		if e.identity != nil {
			errs = append(errs, e.identity.close())
		}
		if e.node != nil {
			errs = append(errs, e.node.Close(), os.RemoveAll(e.node.Dir()))
		}
	}
	return errors.Join(errs...)
}
