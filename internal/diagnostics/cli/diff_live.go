package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

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

// compareLive submits the change to the control plane.
func (d *differing) compareLive(c *cobra.Command) (*diff.Report, error) {
	var body bytes.Buffer
	if d.file != "" {
		files, err := offline.ReadFiles(d.file, c.InOrStdin())
		if err != nil {
			return nil, fmt.Errorf("--filename: %w", err)
		}
		for _, f := range files {
			fmt.Fprintf(&body, "---\n%s\n", f.Text)
		}
	}
	deleted, err := d.deletedKeys()
	if err != nil {
		return nil, err
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
	target := "http://" + d.server + readapi.Prefix + "/diff?" + query.Encode()
	request, err := http.NewRequestWithContext(c.Context(), http.MethodPost, target, &body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/yaml")
	response, err := (&http.Client{Timeout: diffTimeout}).Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the control plane (--server %s): %w", d.server, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxReport))
	if err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s: %s", d.server, response.Status, problemDetail(text))
	}
	r := new(readapi.DiffReport)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	for _, u := range r.Unanswered {
		if _, err := fmt.Fprintf(c.ErrOrStderr(), "without the proxies of %s: %s\n", u.Address, u.Reason); err != nil {
			return nil, err
		}
	}
	return &r.Report, nil
}

// formatKey returns KIND/NAMESPACE/NAME, or KIND/NAME for kinds without namespaces.
func formatKey(k config.Key) string {
	if info, _ := api.Info(k.Kind); info.ClusterScoped {
		return string(k.Kind) + "/" + k.Name
	}
	return string(k.Kind) + "/" + k.Namespace + "/" + k.Name
}

// problemDetail returns the reason in an error of the API (RFC 9457), or the text itself.
func problemDetail(text []byte) string {
	var problem struct {
		Detail string `json:"detail"`
	}
	if json.Unmarshal(text, &problem) == nil && problem.Detail != "" {
		return problem.Detail
	}
	return strings.TrimSpace(string(text))
}
