package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/connect"
	"github.com/meshpilot/meshpilot/internal/diagnostics/diff"
	"github.com/meshpilot/meshpilot/internal/diagnostics/diff/offline"
	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// diffTimeout is longer than a control plane computes.
const diffTimeout = 40 * time.Second

// maxReport is the size of the largest report that is read.
const maxReport = 256 << 20

// compareLive submits the change to the control plane and merges the reports of all replicas. If
// not all replicas are known, the replica queries the others; silent replicas are named on the
// error output. It returns the first error of a replica. If all replicas are known, a 404 is
// skipped unless all answer it, because the proxy may be connected to another one.
func (d *differing) compareLive(c *cobra.Command) (*diff.Report, error) {
	body, query, err := d.submission(c)
	if err != nil {
		return nil, err
	}
	control, err := d.controlPlane(c.Context())
	if err != nil {
		return nil, err
	}
	if control.Complete {
		query.Set("local", "true")
	}
	var sum *diff.Report
	var failure error
	for _, replica := range control.Replicas {
		r, err := submit(c.Context(), replica, body, query)
		switch {
		case isNotFound(err) && control.Complete: // the proxy is connected elsewhere
			failure = err
			continue
		case err != nil:
			return nil, err
		}
		for _, u := range r.Unanswered {
			if _, err := fmt.Fprintf(c.ErrOrStderr(), "without the proxies of %s: %s\n", u.Address,
				u.Reason); err != nil {
				return nil, err
			}
		}
		if sum == nil {
			sum = &r.Report
		} else {
			sum.Merge(&r.Report)
		}
	}
	if sum == nil {
		return nil, failure
	}
	return sum, nil
}

// submission returns the body and the query of the request for the change. The body has the files
// of --filename as YAML documents; the query has --delete, --proxy and --proxy-namespace. It
// returns an error if a file cannot be read or --delete is malformed.
func (d *differing) submission(c *cobra.Command) ([]byte, url.Values, error) {
	var body bytes.Buffer
	files, err := offline.ReadFiles(d.files, c.InOrStdin())
	if err != nil {
		return nil, nil, fmt.Errorf("--filename: %w", err)
	}
	for _, f := range files {
		fmt.Fprintf(&body, "---\n%s\n", f.Text)
	}
	deleted, err := d.deletedKeys()
	if err != nil {
		return nil, nil, err
	}
	query := url.Values{}
	for _, k := range deleted {
		query.Add("delete", formatKey(k))
	}
	for name, value := range map[string]string{"proxy": d.proxy, "namespace": d.proxyNamespace} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return body.Bytes(), query, nil
}

// submit submits the change to one replica and returns its report. A status other than 200 is a
// *statusError. It may take diffTimeout. At most maxReport bytes are read.
func submit(ctx context.Context, replica *connect.Replica, body []byte, query url.Values) (*readapi.DiffReport, error) {
	ctx, cancel := context.WithTimeout(ctx, diffTimeout)
	defer cancel()
	target := replica.BaseURL + readapi.Prefix + "/diff?" + query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/yaml")
	response, err := (&http.Client{Transport: replica.Transport}).Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the control plane (%s): %w", replica.Name, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxReport))
	if err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, &statusError{replica.Name, response.Status, problemDetail(text), response.StatusCode}
	}
	r := new(readapi.DiffReport)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	return r, nil
}

// formatKey returns KIND/NAMESPACE/NAME, or KIND/NAME for kinds without namespaces.
func formatKey(k config.Key) string {
	if info, _ := api.Info(k.Kind); info.ClusterScoped {
		return string(k.Kind) + "/" + k.Name
	}
	return string(k.Kind) + "/" + k.Namespace + "/" + k.Name
}

// problemDetail returns the field "detail" of an error document of the API (RFC 9457), or else the
// text itself without white space around it.
func problemDetail(text []byte) string {
	var problem struct {
		Detail string `json:"detail"`
	}
	if json.Unmarshal(text, &problem) == nil && problem.Detail != "" {
		return problem.Detail
	}
	return strings.TrimSpace(string(text))
}
