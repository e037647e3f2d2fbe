package sim

import (
	"fmt"
	"net/http"
	"strconv"
)

// googleFailure is the error of every Google REST API. An empty status is the canonical one of the HTTP status.
func googleFailure(code int, status, message string, details ...object) reply {
	if status == "" {
		status = googleStatus(code)
	}
	problem := object{"code": code, "message": message, "status": status}
	if len(details) > 0 {
		problem["details"] = details
	}
	return jsonReply(code, googleContentType, object{"error": problem})
}

const googleContentType = "application/json; charset=UTF-8"

// googleInvalid is the number of INVALID_ARGUMENT and googleUnavailable that of UNAVAILABLE in a nested google.rpc.Status.
const (
	googleInvalid     = 3
	googleInternal    = 13
	googleUnavailable = 14
)

func googleStatus(code int) string {
	switch code {
	case http.StatusUnauthorized:
		return "UNAUTHENTICATED"
	case http.StatusForbidden:
		return "PERMISSION_DENIED"
	case http.StatusNotFound:
		return "NOT_FOUND"
	case http.StatusConflict:
		return "ABORTED"
	case http.StatusTooManyRequests:
		return "RESOURCE_EXHAUSTED"
	case 499:
		return "CANCELLED"
	case http.StatusNotImplemented:
		return "UNIMPLEMENTED"
	case http.StatusServiceUnavailable:
		return "UNAVAILABLE"
	case http.StatusGatewayTimeout:
		return "DEADLINE_EXCEEDED"
	}
	if code >= http.StatusInternalServerError {
		return "INTERNAL"
	}
	return "INVALID_ARGUMENT"
}

// googleThrottled names the rate quota, and the wait in the body, where Google puts it.
func googleThrottled(service string, retryAfter int) reply {
	details := []object{{
		"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "RATE_LIMIT_EXCEEDED", "domain": "googleapis.com",
		"metadata": object{"service": service, "consumer": "projects/simulated"},
	}}
	if retryAfter > 0 {
		details = append(details, object{
			"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": strconv.Itoa(retryAfter) + "s",
		})
	}
	return googleFailure(http.StatusTooManyRequests, "", fmt.Sprintf("Quota exceeded for quota metric 'Requests' of service '%s'.", service),
		details...)
}

// googleVertices are the corners of a box in whole pixels.
func googleVertices(b Box, p Page) []object {
	vertices := make([]object, 0, 4)
	for _, c := range b.corners(float64(p.Width), float64(p.Height)) {
		vertices = append(vertices, object{"x": int(c[0] + 0.5), "y": int(c[1] + 0.5)})
	}
	return vertices
}

// googleNormalized are the corners of a box in shares of the page.
func googleNormalized(b Box) []object {
	vertices := make([]object, 0, 4)
	for _, c := range b.corners(1, 1) {
		vertices = append(vertices, object{"x": c[0], "y": c[1]})
	}
	return vertices
}
