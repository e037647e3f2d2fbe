package classify

import "net/http"

// byStatus is what HTTP itself says where nothing more specific does. The class of a status that neither HTTP nor the gateways in wide use
// define is Unknown.
func byStatus(status int) Class {
	switch {
	case status >= 200 && status < 400:
		return Success
	}
	switch status {
	case http.StatusTooManyRequests,
		509, // bandwidth limit exceeded
		529: // overloaded
		return Throttle
	case http.StatusRequestTimeout, http.StatusTooEarly,
		http.StatusMisdirectedRequest, // the connection was for another host; nothing was done, and another connection may do
		http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
		520, 521, 522, 523, 524, 530: // a CDN in front that lost its origin
		return Transient
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return Auth
	case http.StatusPaymentRequired:
		return Quota
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusConflict,
		http.StatusGone, http.StatusLengthRequired, http.StatusPreconditionFailed, http.StatusRequestEntityTooLarge,
		http.StatusRequestURITooLong, http.StatusUnsupportedMediaType, http.StatusRequestedRangeNotSatisfiable,
		http.StatusExpectationFailed, http.StatusUnprocessableEntity, http.StatusLocked,
		http.StatusFailedDependency, http.StatusUpgradeRequired, http.StatusPreconditionRequired,
		http.StatusRequestHeaderFieldsTooLarge, http.StatusUnavailableForLegalReasons,
		http.StatusNotImplemented, http.StatusHTTPVersionNotSupported,
		525, 526: // TLS between a CDN and its origin is misconfigured
		return Permanent
	}
	return Unknown
}
