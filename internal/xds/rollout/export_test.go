package rollout

import (
	"fmt"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// SameProducer reports whether two jobs are of one producer.
func (j *Job) SameProducer(o *Job) bool { return j.producer == o.producer }

// CheckIndex returns an error if a change of endpoints would miss a producer that it must reach, or if
// the index has others or removed producers.
func (r *Rollout) CheckIndex() error {
	for pr := range r.everyChange {
		if len(pr.classes) == 0 {
			return fmt.Errorf("a removed producer of %s is indexed", pr.gen.TypeURL)
		}
	}
	for _, pr := range r.producers {
		_, indexed := r.everyChange[pr]
		switch {
		case pr.busy || pr.failed:
			if !indexed {
				return fmt.Errorf("a producer of %s is not indexed: busy %t, failed %t", pr.gen.TypeURL, pr.busy, pr.failed)
			}
		case pr.group != nil && indexed != (pr.gen.TypeURL == api.EndpointType):
			return fmt.Errorf("a producer of %s: indexed %t", pr.gen.TypeURL, indexed)
		}
	}
	return nil
}
