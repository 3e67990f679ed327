// cnats' objects, owned.
#pragma once

#include <nats/nats.h>

#include <memory>

namespace semel::nats {

template <auto destroy>
struct Destroy {
    template <class T>
    void operator()(T* object) const {
        destroy(object);
    }
};

using MessageHandle = std::unique_ptr<natsMsg, Destroy<natsMsg_Destroy>>;
using OptionsHandle = std::unique_ptr<natsOptions, Destroy<natsOptions_Destroy>>;
using ConnectionHandle = std::unique_ptr<natsConnection, Destroy<natsConnection_Destroy>>;
using SubscriptionHandle = std::unique_ptr<natsSubscription, Destroy<natsSubscription_Destroy>>;
using JetStreamHandle = std::unique_ptr<jsCtx, Destroy<jsCtx_Destroy>>;
using ConsumerInfoHandle = std::unique_ptr<jsConsumerInfo, Destroy<jsConsumerInfo_Destroy>>;
using MetaDataHandle = std::unique_ptr<jsMsgMetaData, Destroy<jsMsgMetaData_Destroy>>;
using InboxHandle = std::unique_ptr<natsInbox, Destroy<natsInbox_Destroy>>;

}  // namespace semel::nats
