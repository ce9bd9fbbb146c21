// A client of the library pvAccessCPP: puts of several kinds, PROCESS and PUT_GET, to the records of pvaccess.db. Prints what
// became of each. EPICS_PVA_ADDR_LIST says where.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <pv/pvAccess.h>
#include <pv/clientFactory.h>
#include <pv/configuration.h>
#include <pv/createRequest.h>
#include <pv/reftrack.h>
#include <pva/client.h>
#include <epicsEvent.h>
namespace pva = epics::pvAccess;
namespace pvd = epics::pvData;

struct Waits : pva::ChannelRequester {
    epicsEvent up;
    std::string getRequesterName() { return "pvac"; }
    void channelCreated(const pvd::Status&, pva::Channel::shared_pointer const&) {}
    void channelStateChange(pva::Channel::shared_pointer const&, pva::Channel::ConnectionState s) { if (s == pva::Channel::CONNECTED) up.signal(); }
};
struct Processes : pva::ChannelProcessRequester {
    epicsEvent made, done; pvd::Status status;
    std::string getRequesterName() { return "pvac"; }
    void channelProcessConnect(const pvd::Status& s, pva::ChannelProcess::shared_pointer const&) { status = s; made.signal(); }
    void processDone(const pvd::Status& s, pva::ChannelProcess::shared_pointer const&) { status = s; done.signal(); }
};
struct PutGets : pva::ChannelPutGetRequester {
    epicsEvent made, done; pvd::Status status; pvd::StructureConstPtr to_put;
    std::string getRequesterName() { return "pvac"; }
    void channelPutGetConnect(const pvd::Status& s, pva::ChannelPutGet::shared_pointer const&, pvd::StructureConstPtr const& p, pvd::StructureConstPtr const&) { status = s; to_put = p; made.signal(); }
    void putGetDone(const pvd::Status& s, pva::ChannelPutGet::shared_pointer const&, pvd::PVStructurePtr const&, pvd::BitSet::shared_pointer const&) { status = s; done.signal(); }
    void getPutDone(const pvd::Status&, pva::ChannelPutGet::shared_pointer const&, pvd::PVStructurePtr const&, pvd::BitSet::shared_pointer const&) {}
    void getGetDone(const pvd::Status&, pva::ChannelPutGet::shared_pointer const&, pvd::PVStructurePtr const&, pvd::BitSet::shared_pointer const&) {}
};
static void say(const char *what, const pvd::Status& s) { std::cout << what << " " << (s.isSuccess() ? "ok" : s.getMessage()) << std::endl; }

int main() {
    pvac::ClientProvider ctx("pva");
    try {
        pvd::PVStructure::const_shared_pointer blocks(pvd::createRequest("record[process=true,block=true]field()"));
        pvac::ClientChannel sp(ctx.connect("PVA:SP")), mode(ctx.connect("PVA:MODE")), array(ctx.connect("PVA:ARRAY")), text(ctx.connect("PVA:TEXT")), busy(ctx.connect("PVA:BUSY.A")), secure(ctx.connect("PVA:SECURE"));
        sp.put().set("value", 5.5).exec(); std::cout << "scalar ok" << std::endl;
        mode.put().set("value.index", 1).exec(); std::cout << "enum ok" << std::endl;
        text.put().set("value", "hello").exec(); std::cout << "text ok" << std::endl;
        pvd::shared_vector<pvd::int16> numbers(3); numbers[0] = 1; numbers[1] = -2; numbers[2] = 3;
        array.put().set("value", pvd::freeze(numbers)).exec(); std::cout << "array ok" << std::endl;
        busy.put(blocks).set("value", 3.0).exec(); std::cout << "block ok" << std::endl;
        try { secure.put().set("value", 1.0).exec(); std::cout << "secure ok" << std::endl; } catch (std::exception& e) { std::cout << "secure " << e.what() << std::endl; }
    } catch (std::exception& e) { std::cout << "FAILED " << e.what() << std::endl; }
    pva::ClientFactory::start();
    pva::ChannelProvider::shared_pointer provider(pva::ChannelProviderRegistry::clients()->getProvider("pva"));
    std::tr1::shared_ptr<Waits> waits(new Waits);
    pva::Channel::shared_pointer channel(provider->createChannel("PVA:SP", waits));
    if (!waits->up.wait(10)) { std::cout << "not connected" << std::endl; return 1; }
    std::tr1::shared_ptr<Processes> process(new Processes);
    pva::ChannelProcess::shared_pointer p(channel->createChannelProcess(process, pvd::createRequest("")));
    process->made.wait(5); say("process made", process->status);
    if (process->status.isSuccess()) { p->process(); process->done.wait(5); say("process", process->status); }
    std::tr1::shared_ptr<PutGets> both(new PutGets);
    pva::ChannelPutGet::shared_pointer g(channel->createChannelPutGet(both, pvd::createRequest("putField(value)getField(value)")));
    both->made.wait(5); say("put_get made", both->status);
    if (both->status.isSuccess() && both->to_put) {
        pvd::PVStructurePtr value(pvd::getPVDataCreate()->createPVStructure(both->to_put));
        value->getSubFieldT<pvd::PVDouble>("value")->put(7.25);
        pvd::BitSet::shared_pointer bits(new pvd::BitSet); bits->set(value->getSubFieldT("value")->getFieldOffset());
        g->putGet(value, bits); both->done.wait(5); say("put_get", both->status);
    }
    return 0;
}
