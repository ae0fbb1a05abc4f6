package xds

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
)

// Scheme is the kind of a config source.
type Scheme string

// The schemes of meshConfig.configSources[].address.
const (
	// SchemeXDS is an xDS server, xds://host:port, which this package reads.
	SchemeXDS Scheme = "xds"
	// SchemeFile is a directory, fs:///path, which the file source reads.
	SchemeFile Scheme = "fs"
	// SchemeKubernetes is the API server of the control plane's own cluster, k8s://.
	SchemeKubernetes Scheme = "k8s"
)

// Address is a parsed meshConfig.configSources[].address.
type Address struct {
	// Text is the unparsed address.
	Text   string
	Scheme Scheme
	// Host is the host:port of an xDS server. Path is the path of a directory.
	Host, Path string
	// Delta selects the incremental variant of the protocol: xds://host:port?mode=delta.
	Delta bool
}

// ParseAddress returns the parsed address of a config source: xds://host:port, fs:///path or
// k8s://. It returns an error, which does not repeat the address, for all others. A path of k8s://
// and a host of fs:// are refused; the path of fs:// need not exist.
func ParseAddress(text string) (Address, error) {
	a := Address{Text: text}
	u, err := url.Parse(text)
	if err != nil {
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err // the caller names the text
		}
		return a, err
	}
	a.Scheme, a.Path = Scheme(u.Scheme), u.Path
	switch a.Scheme {
	case SchemeXDS:
		err = a.parseServer(u)
	case SchemeFile:
		if u.Host != "" || u.Path == "" {
			err = errors.New("want fs:///path, with the absolute path of a directory")
		}
	case SchemeKubernetes:
		if u.Host != "" || u.Path != "" && u.Path != "/" {
			err = errors.New("want k8s://, the cluster that the control plane runs in; others cannot be named")
		}
	case "":
		err = errors.New("has no scheme: want xds://host:port, fs:///path or k8s://")
	default:
		err = fmt.Errorf("unknown scheme %q: want xds://host:port, fs:///path or k8s://", u.Scheme)
	}
	return a, err
}

// parseServer sets the host with port, and the mode from the only parameter, mode=sotw or
// mode=delta, of an xds address. It returns an error for anything else. Without the parameter,
// Delta stays as it is.
func (a *Address) parseServer(u *url.URL) error {
	a.Path = ""
	host, port, err := net.SplitHostPort(u.Host)
	if err != nil || host == "" || port == "" || u.Path != "" && u.Path != "/" || u.User != nil || u.Fragment != "" {
		return errors.New("want xds://host:port")
	}
	a.Host = u.Host
	parameters, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return err
	}
	for name, values := range parameters {
		if name != "mode" {
			return fmt.Errorf("unknown parameter %q: the only one is mode=sotw or mode=delta", name)
		}
		if len(values) != 1 || !slices.Contains([]string{"sotw", "delta"}, values[0]) {
			return fmt.Errorf("mode is %q: want sotw or delta", strings.Join(values, ", "))
		}
		a.Delta = values[0] == "delta"
	}
	return nil
}
