package credential

import (
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
)

// TestDenials: a granted right is withdrawn after the API server has denied it several times in a
// row, and after more denials if it could not evaluate all rules. A right that was never granted is
// denied at once, and a grant applies at once.
func TestDenials(t *testing.T) {
	yes := authorizationv1.SubjectAccessReviewStatus{Allowed: true}
	no := authorizationv1.SubjectAccessReviewStatus{}
	unsure := authorizationv1.SubjectAccessReviewStatus{EvaluationError: "a role is not there"}
	type answers = []authorizationv1.SubjectAccessReviewStatus
	many := func(n int, s authorizationv1.SubjectAccessReviewStatus) (list answers) {
		for range n {
			list = append(list, s)
		}
		return list
	}
	for name, tc := range map[string]struct {
		answers answers
		want    bool
	}{
		"allowed":                       {answers{yes}, true},
		"never allowed":                 {answers{no}, false},
		"never allowed, and unsure":     {answers{unsure}, false},
		"denied and allowed":            {answers{answered(true, true)}, false},
		"one denial":                    {answers{yes, no}, true},
		"a second one":                  {answers{yes, no, no}, false},
		"one, and another later":        {answers{yes, no, yes, no}, true},
		"unsure for long":               {append(answers{yes}, many(doubtfulDenials-1, unsure)...), true},
		"unsure for too long":           {append(answers{yes}, many(doubtfulDenials, unsure)...), false},
		"allowed again at once":         {answers{yes, no, no, yes}, true},
		"denied at once when withdrawn": {answers{yes, no, no, no}, false},
	} {
		r := new(permission)
		for _, a := range tc.answers {
			r.applyReview(a)
		}
		if !r.known || r.isAllowed() != tc.want {
			t.Errorf("%s: allowed %v, want %v", name, r.isAllowed(), tc.want)
		}
	}
}

// answered returns a review response, which may be allowed and denied.
func answered(allowed, denied bool) authorizationv1.SubjectAccessReviewStatus {
	return authorizationv1.SubjectAccessReviewStatus{Allowed: allowed, Denied: denied}
}
